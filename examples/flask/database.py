"""The database, through SQLAlchemy."""

import os

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker

from offsider.integrations.sqlalchemy import scope

URL = os.environ.get("DATABASE_URL", "sqlite:///reports.db")
OPTIONS = {"check_same_thread": False, "timeout": 10} if URL.startswith("sqlite") else {}
engine = create_engine(URL, connect_args=OPTIONS)
# One session per job or request. The application removes it with its context.
session = scoped_session(sessionmaker(engine), scopefunc=scope)


class Base(DeclarativeBase):
    pass


class Report(Base):
    __tablename__ = "reports"

    id: Mapped[int] = mapped_column(primary_key=True)
    year: Mapped[int]
    status: Mapped[str] = mapped_column(default="pending")
    runs: Mapped[int] = mapped_column(default=0)
    text: Mapped[str] = mapped_column(default="")
