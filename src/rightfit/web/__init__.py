"""The web page: NiceGUI on FastAPI. It computes nothing; every figure and sentence comes from
search and explain.

rightfit.web.asgi.create_app(settings)   the FastAPI application of the API with the pages
rightfit.web.page.mount(app, settings)   adds the pages to a FastAPI application
"""
