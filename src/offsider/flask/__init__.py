"""For Flask: settings in ``app.config``, an application context in each job, commands, and the web UI.

::

    offsider = Offsider()

    def create_app() -> Flask:
        app = Flask(__name__)
        app.config["OFFSIDER"] = {"redis": {"url": "redis://localhost/0"}}
        offsider.init_app(app)
        app.register_blueprint(pages(current_staff), url_prefix="/jobs")
        return app
"""

from offsider.flask.blueprint import pages
from offsider.flask.extension import AppContext, Offsider

__all__ = ["AppContext", "Offsider", "pages"]
