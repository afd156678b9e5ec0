#include "common/base/error.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <string>

namespace talos {
namespace {

// Catches: a kind that does not survive the one string that RPC carries.
TEST(Error, KindSurvivesTheWire) {
  for (auto kind :
       {ErrorKind::kInternal, ErrorKind::kInvalidArgument, ErrorKind::kNotFound,
        ErrorKind::kConflict, ErrorKind::kPermissionDenied, ErrorKind::kUnauthenticated,
        ErrorKind::kFailedPrecondition, ErrorKind::kUnavailable, ErrorKind::kDeadlineExceeded,
        ErrorKind::kResourceExhausted, ErrorKind::kUnimplemented}) {
    auto local = error(kind, "service \"x\": gone");
    kj::Exception remote(local.getType(), "remote", 0,
                         kj::str("remote exception: remote exception: ", local.getDescription()));
    EXPECT_EQ(kindOf(remote), kind) << nameOf(kind).cStr();
    EXPECT_STREQ(messageOf(remote).cStr(), "service \"x\": gone");
  }
}

// Catches: taking any text with a colon for a kind, and losing its prefix.
TEST(Error, ForeignExceptionsKeepTheirText) {
  kj::Exception plain(kj::Exception::Type::FAILED, "f", 1, kj::str("open(\"/x\"): No such file"));
  EXPECT_EQ(kindOf(plain), ErrorKind::kInternal);
  EXPECT_STREQ(messageOf(plain).cStr(), "open(\"/x\"): No such file");
  kj::Exception gone(kj::Exception::Type::DISCONNECTED, "f", 1, kj::str("Peer disconnected."));
  EXPECT_EQ(kindOf(gone), ErrorKind::kUnavailable);
}

// Catches: a user who reads the source of a system call, and a text of another program that is cut.
TEST(Error, ASystemCallHasItsNameAlone) {
  auto text = [](kj::StringPtr description) {
    kj::Exception e(kj::Exception::Type::DISCONNECTED, "f", 1, kj::str(description));
    return std::string(messageOf(e).cStr());
  };
  EXPECT_EQ(text("::read(fd, buffer, maxBytes): Connection reset by peer"),
            "read: Connection reset by peer");
  EXPECT_EQ(text("remote exception: n = ::writev(fd, iov.begin(), iov.size()): Broken pipe"),
            "writev: Broken pipe");
  EXPECT_EQ(text("fsync(fd): No space left on device; part = a.part"),
            "fsync: No space left on device; part = a.part");
  for (auto kept : {"open(\"/x\"): Permission denied", "lookup(r.example): no such host", "(x): y",
                    "connect(): Connection refused", "two words(x): Broken pipe (of a program)",
                    "Peer disconnected."}) {
    EXPECT_EQ(text(kept), kept);
  }
  int fd = -1;
  auto e = kj::runCatchingExceptions([&]() { KJ_SYSCALL(fcntl(fd, F_GETFD), fd); });
  EXPECT_EQ(std::string(messageOf(KJ_ASSERT_NONNULL(e)).cStr()),
            "fcntl: Bad file descriptor; fd = -1");
}

}  // namespace
}  // namespace talos
