"""Month names in feeds of many languages."""

from __future__ import annotations

#: One line per language, one group per month: full name and abbreviations (Unicode CLDR). A name
#: that several languages share must mean the same month in all of them, so Croatian lacks its "lip", "srp"
#: and "listopad", which are other months in Polish and Czech.
_LANGUAGES = """
    jan january | feb february | mar march | apr april | may | jun june | jul july | aug august | sep sept september | oct october | nov november | dec december
    januar jän jänner | februar feber | mär märz mrz maerz | april | mai | juni | juli | august | september | okt oktober | november | dez dezember
    janv janvier | fév févr février fev fevrier | mars | avr avril | mai | juin | juil juillet | août aout | septembre | octobre | novembre | déc décembre decembre
    ene enero | febrero | marzo | abr abril | mayo | junio | julio | ago agosto | septiembre setiembre | octubre | noviembre | dic diciembre
    janeiro | fev fevereiro | março marco | abr abril | maio | junho | julho | ago agosto | set setembro | out outubro | novembro | dez dezembro
    gen gennaio | febbraio | marzo | aprile | mag maggio | giu giugno | lug luglio | ago agosto | set sett settembre | ott ottobre | novembre | dic dicembre
    januari | februari | mrt maart | april | mei | juni | juli | augustus augusti | september | okt oktober | november | december
    januar | februar | marts | april | maj | juni | juli | august | september | okt oktober | november | des desember
    янв января январь | фев февр февраля февраль | мар марта март | апр апреля апрель | мая май | июн июня июнь | июл июля июль | авг августа август | сен сент сентября сентябрь | окт октября октябрь | ноя нояб ноября ноябрь | дек декабря декабрь
    sty stycznia | lut lutego | marca | kwi kwietnia | maja | cze czerwca | lip lipca | sie sierpnia | wrz września | paź października | lis listopada | gru grudnia
    oca ocak | şub şubat | mart | nis nisan | mayıs | haz haziran | tem temmuz | ağu ağustos | eyl eylül | eki ekim | kas kasım | ara aralık
    tammikuuta tammi tammikuu | helmikuuta helmi helmikuu | maaliskuuta maalis maaliskuu | huhtikuuta huhti huhtikuu | toukokuuta touko toukokuu | kesäkuuta kesä kesäkuu | heinäkuuta heinä heinäkuu | elokuuta elo elokuu | syyskuuta syys syyskuu | lokakuuta loka lokakuu | marraskuuta marras marraskuu | joulukuuta joulu joulukuu
    jaanuar jaan | veebruar veebr | märts | aprill | | juuni | juuli | | | oktoober | | detsember dets
    janvāris | februāris febr | | aprīlis | maijs | jūnijs jūn | jūlijs jūl | augusts | septembris | oktobris | novembris | decembris
    sausio saus sausis | vasario vas vasaris | kovo kov kovas | balandžio bal balandis | gegužės geg gegužė | birželio birž birželis | liepos liep liepa | rugpjūčio rugp rugpjūtis | rugsėjo rugs rugsėjis | spalio spal spalis | lapkričio lapkr lapkritis | gruodžio gruod gruodis
    janúar | febrúar | | apríl | maí | júní jún | júlí júl | ágúst ágú | | október | nóvember nóv |
    ledna led leden | února úno únor | března bře březen | dubna dub duben | května kvě květen | června čvn červen | července čvc červenec | srpna srp srpen | září zář | října říj říjen | listopadu listopad | prosince pro prosinec
    januára január | februára február | marec | apríla | mája máj | júna | júla | augusta | septembra | októbra | novembra | decembra
    styczeń | luty | marzec | kwiecień | | czerwiec | lipiec | sierpień | wrzesień | październik | | grudzień
     | | | | | junij | julij | avgust avg | | | |
    siječnja sij siječanj | veljače velj veljača | ožujka ožu ožujak | travnja tra travanj | svibnja svi svibanj | lipnja lipanj | srpnja srpanj | kolovoza kol kolovoz | rujna ruj rujan | | studenoga stu studeni | prosinca prosinac
    ianuarie ian | februarie | martie | aprilie | | iunie iun | iulie iul | | septembrie | octombrie | noiembrie | decembrie
     | | március márc | április ápr | május | június | július | augusztus | szeptember szept | | |
    ιανουαρίου ιαν ιανουάριος | φεβρουαρίου φεβ φεβρουάριος | μαρτίου μαρ μάρτιος μάρ | απριλίου απρ απρίλιος | μαΐου μαΐ μάιος μάι | ιουνίου ιουν ιούνιος ιούν | ιουλίου ιουλ ιούλιος ιούλ | αυγούστου αυγ αύγουστος αύγ | σεπτεμβρίου σεπ σεπτέμβριος | οκτωβρίου οκτ οκτώβριος | νοεμβρίου νοε νοέμβριος νοέ | δεκεμβρίου δεκ δεκέμβριος
    січня січ січень | лютого лют лютий | березня бер березень | квітня квіт квітень | травня трав травень | червня черв червень | липня лип липень | серпня серп серпень | вересня вер вересень | жовтня жовт жовтень | листопада лист листопад | грудня груд грудень
    студзеня сту студзень | лютага люты | сакавіка сак сакавік | красавіка кра красавік | | чэрвеня чэр чэрвень | ліпеня ліп ліпень | жніўня жні жнівень | верасня верасень | кастрычніка кас кастрычнік | лістапада ліс лістапад | снежня сне снежань
    януари яну | февруари | | април | | юни | юли | | септември сеп | октомври | ноември ное | декември
    јануар јан | фебруар феб | | | мај | јун | јул | | септембар | октобар | новембар нов | децембар дец
    јануари | | | | | јуни | јули | | | | |
    gener | febrer | març | | maig | juny | juliol | agost ag | setembre | | | desembre
    xaneiro xan | febreiro | | | | xuño | xullo xul | | | | | decembro
     | | maret | | | | | agustus agu | | | |
    มกราคม | กุมภาพันธ์ | มีนาคม | เมษายน | พฤษภาคม | มิถุนายน | กรกฎาคม | สิงหาคม | กันยายน | ตุลาคม | พฤศจิกายน | ธันวาคม
    يناير | فبراير | مارس | أبريل | مايو | يونيو | يوليو | أغسطس | سبتمبر | أكتوبر | نوفمبر | ديسمبر
    ינואר | פברואר | מרץ | אפריל | מאי | יוני | יולי | אוגוסט | ספטמבר | אוקטובר | נובמבר | דצמבר
    一月 | 二月 | 三月 | 四月 | 五月 | 六月 | 七月 | 八月 | 九月 | 十月 | 十一月 | 十二月
"""  # noqa: E501 — one language per line
#: Name in lower case → 1–12.
MONTHS: dict[str, int] = {
    name: number
    for line in _LANGUAGES.strip().splitlines()
    for number, names in enumerate(line.split("|"), 1)
    for name in names.split()
}
