"""What each app sends, in its order and its own way of writing, and what it needs of each answer."""
