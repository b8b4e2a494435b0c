"""The app `offsider.django` in a project of its own, run through manage.py as its users do."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from tests.tagged import client_of
from tests.waiting import wait_for

FILES = {
    "manage.py": """
        import os, sys
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
        from django.core.management import execute_from_command_line
        execute_from_command_line(sys.argv)
    """,
    "shop/__init__.py": "",
    "shop/settings.py": """
        import os
        SECRET_KEY = "of the tests"
        ALLOWED_HOSTS = ["*"]
        ROOT_URLCONF = "shop.urls"
        USE_TZ = True
        DATABASES = {
            name: {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{name}.sqlite3"} for name in ("default", "other")
        }
        INSTALLED_APPS = [
            "django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
            "django.contrib.sessions", "django.contrib.messages", "shop", "offsider.django",
        ]
        TASKS = {"default": {"BACKEND": "offsider.django.task_backend.TaskBackend", "QUEUES": []}}
        MIDDLEWARE = [
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ]
        TEMPLATES = [{
            "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
            "OPTIONS": {"context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]},
        }]
        OFFSIDER = {"url": os.environ["SHOP_REDIS"], "queues": ["shop"], "configure": "shop.background.configure"}
    """,
    "shop/background.py": """
        def configure(config):
            config.worker.tag = "the shop"
    """,
    "shop/urls.py": """
        from django.contrib import admin
        from django.urls import include, path
        urlpatterns = [path("admin/", admin.site.urls), path("offsider/", include("offsider.django.urls"))]
    """,
    "shop/jobs.py": """
        from offsider import job
        @job(queue="shop")
        def confirm(order_id: int) -> None:
            from django.contrib.auth.models import User
            User.objects.create_user(f"customer-{order_id}")
    """,
    "shop/tasks.py": """
        from offsider import job
        @job(queue="shop")
        async def ship(order_id: int) -> None:
            from django.contrib.auth.models import User
            user = await User.objects.aget(username=f"customer-{order_id}")
            await User.objects.acreate(username=f"{user.username}-shipped")
    """,
    "shop/emails.py": """
        try:
            from django.tasks import task
        except ImportError:
            from django_tasks import task
        sent = []
        @task(queue_name="shop")
        def send(address):
            sent.append(address)
    """,
    "shop/tests.py": r"""
        import asyncio
        from contextlib import ExitStack
        from django.contrib.auth.models import Permission, User
        from django.db import connections, transaction
        from django.test import SimpleTestCase, TestCase, TransactionTestCase
        import offsider
        from offsider import testing
        from offsider.config.default import default_config
        from shop.emails import send
        from shop.jobs import confirm
        from shop.tasks import ship

        class Real(TransactionTestCase):
            def test_a_real_worker_runs_jobs_and_tasks(self):
                with testing.real() as worker:
                    result = send.enqueue("ann@example.com")
                    with transaction.atomic():
                        confirm.enqueue(7)
                    self.assertIsNone(offsider.lookup(result.id).result(timeout=10))
                    worker.wait()
                    result.refresh()
                    self.assertEqual((result.status, worker.errors), ("SUCCESSFUL", []))
                self.assertTrue(User.objects.filter(username="customer-7").exists())

        class Pushes(TestCase):
            databases = {"default", "other"}

            def test_on_commit_works_with_the_helper_of_django(self):
                with testing.fake() as pushed:
                    with self.captureOnCommitCallbacks(execute=True):
                        with transaction.atomic():
                            jid = confirm.enqueue(7)
                            jids = confirm.enqueue_many([(8,), (9,)])
                        self.assertEqual(len(pushed), 0)
                    self.assertEqual([each.jid for each in pushed], [jid, *jids])
                    confirm.using(after_commit=False).enqueue(10)
                    self.assertEqual(len(pushed), 4)

            def test_it_also_works_around_the_test_mode(self):
                with self.captureOnCommitCallbacks(execute=True):
                    with testing.fake() as pushed:
                        jid = confirm.enqueue(7)
                        jids = confirm.enqueue_many([(8,), (9,)])
                    self.assertEqual(len(pushed), 0)
                self.assertEqual([each.jid for each in pushed], [jid, *jids])
                with self.captureOnCommitCallbacks(execute=True), testing.inline():
                    confirm.enqueue(7)
                self.assertTrue(User.objects.filter(username="customer-7").exists())

            def test_the_failure_names_the_databases_that_have_not_committed(self):
                with testing.fake():
                    for databases, using, expected in (
                        (["other"], "default", 'database other. .*Callbacks(using="other", execute=True):`'),
                        (["default", "other"], "default", 'database other. .*Callbacks(using="other", execute=True):`'),
                        (["default", "other"], "other", "database default. .*Callbacks(execute=True):`"),
                    ):
                        with ExitStack() as stack:
                            stack.enter_context(self.captureOnCommitCallbacks(using=using, execute=True))
                            for database in databases:
                                stack.enter_context(transaction.atomic(database))
                            confirm.enqueue(7)
                        expected = expected.replace("(", r"\(").replace(")", r"\)")
                        with self.assertRaisesRegex(AssertionError, expected):
                            testing.assert_enqueued(confirm, 7)
                        for database in databases:
                            connections[database].run_on_commit.clear()

            def test_a_failure_inside_of_the_helper_says_to_assert_after_it(self):
                with testing.fake(), self.captureOnCommitCallbacks(execute=True):
                    confirm.enqueue(7)
                    with self.assertRaisesRegex(AssertionError, "assert after that block"):
                        testing.assert_enqueued(confirm, 7)
                    connections["default"].run_on_commit.clear()

            def test_a_waiting_push_is_not_taken_for_no_push(self):
                with testing.fake() as pushed:
                    confirm.enqueue(7)
                    with self.assertRaisesRegex(AssertionError, "1 push waits .*captureOnCommitCallbacks"):
                        pushed.assert_not_enqueued(confirm)
                    pushed.assert_not_enqueued(ship)

            def test_a_push_that_was_rolled_back_is_not_enqueued(self):
                with testing.fake() as pushed:
                    with self.assertRaises(ZeroDivisionError), transaction.atomic():
                        confirm.enqueue(7)
                        1 / 0
                    pushed.assert_not_enqueued(confirm)

            def test_drained_jobs_sync_and_async_use_the_transaction_of_the_test(self):
                with testing.fake() as pushed, self.captureOnCommitCallbacks(execute=True):
                    confirm.enqueue(7)
                    ship.enqueue(7)
                self.assertEqual(pushed.drain(), 2)
                self.assertTrue(User.objects.filter(username="customer-7-shipped").exists())

            async def test_so_do_those_of_an_async_test(self):
                from asgiref.sync import sync_to_async
                with testing.fake() as pushed:
                    await User.objects.acreate(username="customer-7")
                    await ship.using(after_commit=False).aenqueue(7)
                    self.assertEqual(await sync_to_async(pushed.drain)(), 1)
                self.assertTrue(await User.objects.filter(username="customer-7-shipped").aexists())

            def test_async_pushes_of_a_plain_test_are_captured(self):
                from asgiref.sync import async_to_sync
                with testing.fake() as pushed, self.captureOnCommitCallbacks(execute=True):
                    async_to_sync(confirm.aenqueue)(7)
                pushed.assert_enqueued(confirm, 7)

            async def test_in_an_async_test_the_failure_names_the_plain_one(self):
                with testing.fake() as pushed, self.captureOnCommitCallbacks(execute=True):
                    await confirm.aenqueue(7)
                with self.assertRaisesRegex(AssertionError, "1 push waits .*async_to_sync"):
                    pushed.assert_enqueued(confirm, 7)

            async def test_a_blocking_push_in_async_code_names_the_other_method(self):
                from django.core.exceptions import SynchronousOnlyOperation
                with testing.fake(), self.assertRaisesRegex(SynchronousOnlyOperation, r"await job\.aenqueue"):
                    confirm.enqueue(7)

            def test_a_drain_without_the_helper_explains_why_nothing_ran(self):
                with testing.fake() as pushed, self.assertLogs("offsider") as logged:
                    confirm.enqueue(7)
                    self.assertEqual(pushed.drain(), 0)
                self.assertIn("1 push waits for the commit", logged.output[0])

            def test_tasks_of_django_are_jobs(self):
                from shop import emails
                with testing.fake() as pushed, self.captureOnCommitCallbacks(execute=True):
                    emails.send.enqueue("ann@example.com")
                pushed.assert_enqueued(emails.send, "ann@example.com", queue="shop", count=1)
                pushed.assert_enqueued("shop.emails.send")
                pushed.assert_not_enqueued(emails.send, "bob@example.com")
                (task,) = pushed.jobs_of(emails.send)
                self.assertEqual(str(task), "shop.emails.send('ann@example.com') in queue shop")
                with self.assertRaisesRegex(AssertionError, "Nearest is 1: .* is 'ann@example.com', not 'bob@"):
                    pushed.assert_enqueued(emails.send, "bob@example.com")
                self.assertEqual(pushed.drain(confirm), 0)
                self.assertEqual(pushed.drain(emails.send), 1)
                self.assertEqual(emails.sent, ["ann@example.com"])

            def test_tasks_of_django_have_results_in_inline_mode(self):
                with testing.inline():
                    with self.captureOnCommitCallbacks(execute=True):
                        result = send.enqueue("bob@example.com")
                    self.assertEqual(result.status, "READY")
                    result.refresh()
                    self.assertEqual((result.status, result.return_value), ("SUCCESSFUL", None))

        class NoDatabase(SimpleTestCase):
            def test_a_push_outside_of_a_transaction_needs_no_database(self):
                with testing.fake() as pushed:
                    confirm.enqueue(7)
                    assert len(pushed) == 1

        class Commits(TransactionTestCase):
            databases = {"default", "other"}

            def test_a_transaction_opened_by_hand_is_refused_with_advice(self):
                connection = connections["other"]
                connection.ensure_connection()
                connection.set_autocommit(False)
                try:
                    with testing.fake() as pushed:
                        advice = "offsider: .* database 'other', after set_autocommit.*after_commit=False"
                        with self.assertRaisesRegex(transaction.TransactionManagementError, advice):
                            confirm.enqueue(7)
                        assert len(pushed) == 0
                finally:
                    connection.set_autocommit(True)

            def test_a_push_waits_for_the_outermost_commit_of_every_database(self):
                with testing.fake() as pushed:
                    with transaction.atomic("other"):
                        with transaction.atomic():
                            with transaction.atomic():
                                confirm.enqueue(7)
                            confirm.enqueue_many([(8,), (9,)])
                            assert len(pushed) == 0
                        assert len(pushed) == 0
                    assert len(pushed) == 3

            def test_a_rollback_of_either_or_to_a_savepoint_drops_the_push(self):
                with testing.fake() as pushed:
                    for outer, inner in (("default", "other"), ("other", "default"), ("default", "default")):
                        with transaction.atomic(outer):
                            try:
                                with transaction.atomic(inner):
                                    confirm.enqueue(7)
                                    confirm.enqueue_many([(8,), (9,)])
                                    raise KeyError
                            except KeyError:
                                pass
                    assert len(pushed) == 0

            async def test_async_pushes_wait_for_the_transaction_of_the_thread(self):
                from asgiref.sync import sync_to_async
                with testing.fake() as pushed:
                    atomic = transaction.atomic()
                    await sync_to_async(atomic.__enter__)()
                    await confirm.aenqueue(7)
                    await confirm.aenqueue_many([(8,), (9,)])
                    assert len(pushed) == 0
                    await sync_to_async(atomic.__exit__)(None, None, None)
                    assert len(pushed) == 3

        class Settings(TestCase):
            def test_the_table_and_its_function_configure_the_process(self):
                self.assertEqual(list(default_config().worker.queues), ["shop"])
                assert default_config().worker.tag == "the shop"
                assert default_config().client.app_version == "the web"

        class Pages(TestCase):
            def user(self, *codenames, **fields):
                user = User.objects.create_user("kim", **fields)
                user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
                self.client.force_login(user)

            def act(self):
                form, ours = "application/x-www-form-urlencoded", {"sec-fetch-site": "same-origin"}
                return self.client.post("/offsider/fleet/queues/shop/pause", "", content_type=form, headers=ours)

            def test_strangers_are_redirected_to_the_login_of_the_admin_site(self):
                response = self.client.get("/offsider/fleet")
                self.assertRedirects(response, "/admin/login/?next=/offsider/fleet", fetch_redirect_response=False)

            def test_without_a_permission_staff_may_not_look(self):
                self.user(is_staff=True)
                response = self.client.get("/offsider/")
                assert response.status_code == 403
                assert b"permission offsider.view_jobs" in response.content

            def test_who_may_view_may_not_act(self):
                self.user("view_jobs", is_staff=True)
                assert self.client.get("/offsider/").status_code == 200
                assert self.act().status_code == 403

            def test_who_may_change_may_act(self):
                confirm.using(after_commit=False).enqueue(7)
                self.user("change_jobs", is_staff=True)
                assert self.client.get("/offsider/").status_code == 200
                assert self.act().status_code == 303

            def test_customers_may_not_look_whatever_their_permissions(self):
                self.user("change_jobs")
                assert self.client.get("/offsider/").status_code == 403

            def test_the_admin_index_links_to_the_pages(self):
                self.user("view_jobs", is_staff=True)
                self.assertContains(self.client.get("/admin/"), "Background jobs")
                self.assertRedirects(
                    self.client.get("/admin/offsider/jobs/"), "/offsider/", fetch_redirect_response=False
                )

            def test_the_admin_has_no_pages_of_one_job(self):
                self.user(is_staff=True, is_superuser=True)
                for page in ("change", "history"):
                    response = self.client.get(f"/admin/offsider/jobs/1/{page}/")
                    self.assertRedirects(response, "/admin/", fetch_redirect_response=False)
                assert self.client.get("/admin/offsider/jobs/1/delete/").status_code == 403
    """,
}


class Project:
    """A folder with a Django project.

    Args:
        folder: an empty folder.
        redis: URL of its server.
    """

    def __init__(self, folder: Path, redis: str) -> None:
        self.folder = folder
        self.environ = os.environ | {"SHOP_REDIS": redis, "PYTHONDONTWRITEBYTECODE": "1"}
        for name, text in FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(textwrap.dedent(text))

    def run(self, *words: str, module: str = "manage.py", **environ: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *(("-m", module) if module == "offsider" else (module,)), *words]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def worker(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "manage.py", "offsider", "worker", "--noreload"]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


@pytest.fixture
def project(tmp_path, redis_url):
    return Project(tmp_path, redis_url)


#: Django imports jobs.py before its setup has ended.
USES_THE_CONFIGURATION = """
from offsider import configure_client
from offsider.inspector import Queue

@configure_client
def configure_pushes(config):
    config.client.app_version = "the web"

queue = Queue("shop")
"""


def test_the_tests_of_a_project_pass(project):
    with (project.folder / "shop" / "jobs.py").open("a") as file:
        file.write(USES_THE_CONFIGURATION)
    ended = project.run("test", "-v", "0")
    assert ended.returncode == 0, ended.stderr


def test_the_checks_pass_and_no_migration_is_missing(project):
    ended = project.run("check", "--fail-level", "WARNING")
    assert (ended.returncode, ended.stdout) == (0, "System check identified no issues (0 silenced).\n"), ended.stderr
    ended = project.run("makemigrations", "--check", "--dry-run")
    assert (ended.returncode, ended.stdout) == (0, "No changes detected\n"), ended.stderr


@pytest.mark.parametrize(
    "table, message",
    [
        ('{"concurency": 3}', "(offsider.E001) shop.settings.OFFSIDER: there is no setting concurency"),
        ('["worker"]', "(offsider.E001) shop.settings: OFFSIDER must be a dict of settings"),
        ('{"configure": "shop.nothing"}', "(offsider.E002) OFFSIDER['configure'] must be the path of a function"),
        ('{"outbox": "far"}', '(offsider.E003) OFFSIDER["outbox"] must be True, False or one of DATABASES'),
        ('{"routing": {"rules": [["*", "default", "far"]]}}', "(offsider.E003) routing.rules, rule 1"),
        ('{"periodic": {"nightly": {"job": "shop.jobs.confirm", "cron": "61 * * * *"}}}', "(offsider.E003) "),
    ],
)
def test_a_wrong_table_fails_the_check(project, table, message):
    with (project.folder / "shop" / "settings.py").open("a") as file:
        file.write(f"OFFSIDER = {table}\n")
    ended = project.run("check")
    assert ended.returncode == 1
    assert message in ended.stderr


def test_wrong_periodic_jobs_fail_the_check_as_they_fail_a_worker(project):
    entries = {
        "far": {"job": "shop.jobs.konfirm", "every": 60},
        "fine": {"job": "shop.jobs.confirm", "every": 60, "args": [1]},
        "misfit": {"job": "shop.jobs.confirm", "every": 60},
    }
    with (project.folder / "shop" / "settings.py").open("a") as file:
        file.write(f"OFFSIDER = {{'periodic': {entries}}}\n")
    ended = project.run("check")
    assert ended.returncode == 1
    assert "(offsider.W004) periodic job 'far': job shop.jobs.konfirm is not declared here" in ended.stderr
    assert "(offsider.E006) periodic job 'misfit': " in ended.stderr
    assert "2 issues" in ended.stderr


def test_a_file_next_to_the_table_is_a_warning(project):
    (project.folder / "offsider.toml").write_text("concurrency = 3\n")
    assert "(offsider.W002) offsider.toml is not read" in project.run("check").stderr


def test_a_project_without_jinja2_and_the_pages_starts_with_a_warning(project):
    (project.folder / "shop" / "urls.py").write_text(
        "from django.contrib import admin\nfrom django.urls import path\n"
        "urlpatterns = [path('admin/', admin.site.urls)]\n"
    )
    manage = project.folder / "manage.py"
    manage.write_text("import sys\nsys.modules['jinja2'] = None\n" + manage.read_text())
    ended = project.run("check")
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert "(offsider.W003) The web UI needs jinja2." in ended.stderr


def test_both_programs_find_settings_and_jobs(project):
    found = project.run("offsider", "jobs", "list")
    assert "shop.jobs.confirm" in found.stdout
    assert "shop.tasks.ship" in found.stdout
    assert "offsider.django.task" in found.stdout  # though no module with tasks is imported yet
    found = project.run("worker", "--list-queues", module="offsider", DJANGO_SETTINGS_MODULE="shop.settings")
    assert (found.stdout, found.returncode) == ("shop\n", 0), found.stderr


def test_settings_that_cannot_be_imported_are_one_line(project):
    found = project.run("stats", module="offsider", DJANGO_SETTINGS_MODULE="shop.setings")
    assert found.returncode != 0
    assert "DJANGO_SETTINGS_MODULE=shop.setings cannot be imported: ModuleNotFoundError" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_job_with_the_outbox_option_installs_the_outbox(project):
    with (project.folder / "shop/jobs.py").open("a") as file:
        file.write('@job(after_commit="outbox")\ndef pay() -> None: ...\n')
    assert project.run("migrate", "-v", "0").returncode == 0
    pushed = project.run("shell", "-c", "from shop.jobs import *; confirm.enqueue(1); pay.enqueue()")
    assert pushed.returncode == 0, pushed.stderr
    count = "from offsider.django.models import OutboxRow; print(OutboxRow.objects.count())"
    assert project.run("shell", "-c", count).stdout.endswith("1\n")


KILLED = """
import os, signal
from offsider.django.outbox import DjangoSource

delete = DjangoSource.delete


def kill_once(self, ids):
    try:
        os.close(os.open("killed", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return delete(self, ids)
    os.kill(os.getpid(), signal.SIGKILL)


def configure(config):
    DjangoSource.delete = kill_once
"""


def test_a_worker_killed_before_it_deletes_its_rows_doubles_no_job(tmp_path, embedded_url):
    project, raw_redis = Project(tmp_path, embedded_url), client_of(embedded_url)
    (project.folder / "shop" / "background.py").write_text(KILLED)
    with (project.folder / "shop" / "settings.py").open("a") as file:
        file.write('OFFSIDER["outbox"] = True\n')
    assert project.run("migrate", "-v", "0").returncode == 0
    pushed = project.run("shell", "-c", "from shop.jobs import *; confirm.enqueue_many([(n,) for n in range(3)])")
    assert pushed.returncode == 0, pushed.stderr
    assert raw_redis.keys("queue:*") == []
    assert project.worker().wait(60) == 128 + signal.SIGKILL
    raw_redis.delete(*raw_redis.keys("*turn:outbox*"))  # as after ten seconds
    second = project.worker()
    with closing(sqlite3.connect(project.folder / "default.sqlite3")) as connection:
        rows = "select count(*) from offsider_outbox"
        wait_for(lambda: connection.execute(rows).fetchone() == (0,), seconds=60, what="the end of the outbox")
        wait_for(lambda: int(raw_redis.get("stat:processed") or 0) >= 3, seconds=60, what="three jobs")
        second.terminate()
        assert second.wait(60) == 0
        ended = raw_redis.get("stat:processed"), raw_redis.zcard("retry"), raw_redis.llen("queue:shop")
        raw_redis.close()
        assert ended == (b"3", 0, 0)
        assert connection.execute("select count(*) from auth_user").fetchone() == (3,)
