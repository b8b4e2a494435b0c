"""The database: SQLite through SQLAlchemy. `python database.py` creates the tables."""

from collections.abc import Iterator

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

# FastAPI solves dependencies in threads, so a connection moves between threads.
engine = create_engine("sqlite:///reports.db", connect_args={"check_same_thread": False, "timeout": 10})


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
