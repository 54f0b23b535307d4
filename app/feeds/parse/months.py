"""Month names in feeds of many languages, and the filler words around them in dates."""

from __future__ import annotations

#: One line per language, one group per month: full name and abbreviations (Unicode CLDR). A name
#: that several languages share must mean the same month in all of them.
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
"""  # noqa: E501 — one language per line
#: Name in lower case → 1–12.
MONTHS: dict[str, int] = {
    name: number
    for line in _LANGUAGES.strip().splitlines()
    for number, names in enumerate(line.split("|"), 1)
    for name in names.split()
}
#: "1 de enero de 2024", "1 января 2024 г.", "1. Januar 2024 um 10:00 Uhr", "1 janvier 2024 à 10:00".
FILLERS = frozenset("de del di do le la um uhr klo kl at à a г года г".split())  # noqa: SIM905
