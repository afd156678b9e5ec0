#include "talosctl/cli/run-command.h"

#include <gtest/gtest.h>

#include "talosctl/cli/test-console.h"

namespace talos::talosctl {
namespace {

// Catches: a user who is sent to a log without entries, because of the user's own mistake or
// because no node was called; a user who is not sent to the log of a node that failed.
TEST(RequestNote, IsForFailuresOfANodeThatWasCalled) {
  ConsoleFixture test;
  auto note = [&](ErrorKind kind) { return requestNote(test.deps, error(kind, "text")); };
  test.deps.requestId = "8d3f21c0a4b7e915"_kj;
  EXPECT_EQ(note(ErrorKind::kInternal), ""_kj);
  test.deps.requested = true;
  auto line = "see \"talosctl logs machined --grep 8d3f21c0a4b7e915\"\n"_kj;
  EXPECT_EQ(note(ErrorKind::kInternal), line);
  EXPECT_EQ(note(ErrorKind::kDeadlineExceeded), line);
  EXPECT_EQ(requestNote(test.deps, KJ_EXCEPTION(FAILED, "a bug")), line);
  for (auto kind : {ErrorKind::kNotFound, ErrorKind::kInvalidArgument, ErrorKind::kUnavailable,
                    ErrorKind::kPermissionDenied, ErrorKind::kFailedPrecondition}) {
    EXPECT_EQ(note(kind), ""_kj) << nameOf(kind).cStr();
  }
  test.deps.requestId = ""_kj;
  EXPECT_EQ(note(ErrorKind::kInternal), ""_kj);
}

}  // namespace
}  // namespace talos::talosctl
