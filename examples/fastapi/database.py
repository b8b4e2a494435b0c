"""The database, through SQLAlchemy. `python database.py` creates the tables."""

import os
from collections.abc import Iterator

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

URL = os.environ.get("DATABASE_URL", "sqlite:///reports.db")
# FastAPI solves dependencies in threads, so a connection moves between threads.
OPTIONS = {"check_same_thread": False, "timeout": 10} if URL.startswith("sqlite") else {}
engine = create_engine(URL, connect_args=OPTIONS)


class Base(DeclarativeBase):
    pass


class Report(Base):
    __tablename__ = "reports"

    id: Mapped[int] = mapped_column(primary_key=True)
    year: Mapped[int]
    status: Mapped[str] = mapped_column(default="pending")
    runs: Mapped[int] = mapped_column(default=0)
    text: Mapped[str] = mapped_column(default="")


def get_session() -> Iterator[Session]:
    """For requests and jobs: commits after a success, rolls back after an error."""
    with Session(engine) as session, session.begin():
        yield session


if __name__ == "__main__":
    Base.metadata.create_all(engine)
