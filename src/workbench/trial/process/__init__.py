"""The processes in which training code runs, and what each begins with."""
