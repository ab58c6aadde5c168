"""Where the cluster asks for signatures, its users log in with what they sign with, and see what it lets them see."""

import pytest

from tests.dashboard.conftest import auth_cluster
from tests.dashboard.web import Served, Visitor, text_of, wait_for
from tests.support.auth_users import ROOT


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A dashboard of a cluster with Auth 2.0, which it may ask nothing by itself."""
    folder = tmp_path_factory.mktemp("auth")
    with (
        auth_cluster(folder, nameserver_too=True) as nameserver,
        Served(folder / "dashboard", nameserver) as served,
    ):
        yield served


def test_a_user_of_the_cluster_sees_it_with_his_own_rights(guarded):
    visitor = Visitor(guarded)
    fields = {"name": ROOT.access_key, "password": ROOT.secret_key}
    said = visitor.http.post("/login", data=fields)
    assert said.status_code == 303
    assert "TBW102" in wait_for(visitor, "/topics", "TBW102", all="1")
    assert "read only · cluster" in text_of(visitor.get("/topics"))
    assert ROOT.secret_key not in guarded.program.log.read_text()


@pytest.mark.parametrize(
    ("name", "password"), [("root", "wrong-secret"), ("nobody", "wrong-secret"), ("-", "-")]
)
def test_a_wrong_secret_is_refused(guarded, name, password):
    visitor = Visitor(guarded)
    said = visitor.http.post("/login", data={"name": name, "password": password})
    assert said.status_code == 403


def test_a_user_of_the_dashboards_own_is_told_what_it_may_not_ask(guarded):
    visitor = Visitor(guarded).log_in()
    said = visitor.get("/topics")
    assert said.status_code == 502
    assert "NO_PERMISSION" in text_of(said)


def test_a_cluster_without_access_control_has_no_users(served):
    visitor = Visitor(served)
    said = visitor.http.post("/login", data={"name": "anybody", "password": "anything-goes"})
    assert said.status_code == 403
