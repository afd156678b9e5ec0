// Tests the end of a rotation of the CA of Kubernetes.
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "talosctl/rotate-ca/rotations.h"

namespace talos::talosctl {
namespace {

// Catches: a rotation that ends just before its completion because one connection was lost; a lost
// connection that counts as the absence of the old CA; a rotation that never ends.
TEST(KubernetesRotation, ALostConnectionDoesNotEndTheRemovalOfTheOldCa) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  // Answers of successive attempts; the last answer repeats. 'x': the connection is refused.
  auto attempts = [&](kj::StringPtr answers, kj::Duration needed) {
    size_t made = 0;
    auto forget = [&]() -> kj::Promise<bool> {
      char answer = answers[kj::min(made++, answers.size() - 1)];
      if (answer == 'x') return error(ErrorKind::kUnavailable, "connection refused");
      return answer == 'y';
    };
    auto end =
        forgetPublished(timer, needed, 500 * kj::MILLISECONDS, forget)
            .then([]() { return kj::str("done"); }, [](kj::Exception&& e) { return messageOf(e); });
    while (!end.poll(scope)) timer.advanceTo(KJ_ASSERT_NONNULL(timer.nextEvent()));
    return kj::str(made, ": ", end.wait(scope));
  };
  EXPECT_EQ(attempts("xyxn", 0 * kj::SECONDS), "4: done"_kj);
  EXPECT_EQ(attempts("xyn", 2 * kj::SECONDS), "7: done"_kj);
  auto never = attempts("x", 0 * kj::SECONDS);
  EXPECT_TRUE(never.endsWith("remove it there: connection refused")) << never.cStr();
}

}  // namespace
}  // namespace talos::talosctl
