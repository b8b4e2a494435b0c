# One-line aliases; the words themselves are in dev.py.
.PHONY: demo test full quick lint types bench scoreboard docs release lock
demo:  ; python3 dev.py demo
test:  ; python3 dev.py test
full: ; python3 dev.py full
quick: ; python3 dev.py quick
lint:  ; python3 dev.py lint
types: ; python3 dev.py types
bench: ; python3 dev.py bench
scoreboard: ; python3 dev.py scoreboard
docs:  ; python3 dev.py docs
release: ; python3 dev.py release --check
lock:  ; python3 dev.py lock
