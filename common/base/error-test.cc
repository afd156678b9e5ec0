#include "common/base/error.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace talos
