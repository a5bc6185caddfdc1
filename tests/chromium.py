"""Where the browser is that tests drive, None if there is none: then other tests look at notebooks and explorers."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
