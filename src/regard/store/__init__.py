"""Model folders and run folders: written whole or not at all, checked when they are read. No kinds of models here."""
