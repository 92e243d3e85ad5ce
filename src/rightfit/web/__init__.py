"""The web page: NiceGUI on FastAPI. It computes nothing; every figure and sentence comes from search and explain.

rightfit.web.page.mount(app, settings)   adds the pages to a FastAPI application
"""
