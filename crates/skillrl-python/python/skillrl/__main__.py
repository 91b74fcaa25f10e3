"""``python -m skillrl`` is the program ``skillrl``."""

from skillrl._program import main

main()
