#include "common/base/controller-log.h"

#include <gtest/gtest.h>
#include <kj/vector.h>
#include <unistd.h>

#include <string>

namespace talos {
namespace {

// Returns the lines that `work` writes to standard error.
kj::Vector<kj::String> controllerLines(kj::FunctionParam<void()> work) {
  testing::internal::CaptureStderr();
  work();
  auto text = testing::internal::GetCapturedStderr();
  kj::Vector<kj::String> lines;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    auto line = text.substr(at, end - at);
    KJ_IF_MAYBE (found, readControllerLine(kj::arrayPtr(line.data(), line.size()))) {
      EXPECT_EQ(found->time.size(), 19u) << line;
      lines.add(kj::str(found->controller, ": ", found->message));
    } else {
      lines.add(kj::str("another line"));
    }
  }
  return lines;
}

// Catches: words, quotes or a name that change between the daemon and the log of controllers.
TEST(ControllerLog, IsReadAsItWasWritten) {
  ControllerLog controller("k8s.ManifestApplyController");
  auto lines = controllerLines([&] {
    controller.started();
    controller.info("created rbac.authorization.k8s.io/v1/ClusterRole/psp:privileged");
    controller.failed("an error on the server (\"\\\") x=y", kj::origin<kj::TimePoint>());
    log::info("waiting for Kubernetes");
  });
  EXPECT_EQ(kj::strArray(lines, "\n"),
            "k8s.ManifestApplyController: controller starting\n"
            "k8s.ManifestApplyController: created "
            "rbac.authorization.k8s.io/v1/ClusterRole/psp:privileged\n"
            "k8s.ManifestApplyController: controller failed: an error on the server (\"\\\") x=y\n"
            "another line");
}

// Catches: a log that one error fills; a lasting or returning error that is not logged again.
TEST(ControllerLog, RepeatsAnErrorEachMinute) {
  ControllerLog controller("a.B");
  auto begin = kj::origin<kj::TimePoint>() + 1 * kj::HOURS;
  auto lines = controllerLines([&] {
    controller.failed("no", begin);
    controller.failed("no", begin + 59 * kj::SECONDS);
    controller.failed("no", begin + 60 * kj::SECONDS);
    controller.failed("other", begin + 61 * kj::SECONDS);
    controller.succeeded();
    controller.failed("other", begin + 62 * kj::SECONDS);
  });
  EXPECT_EQ(kj::strArray(lines, " | "),
            "a.B: controller failed: no | a.B: controller failed: no | "
            "a.B: controller failed: other | a.B: controller failed: other");
}

// Catches: a text of another program that becomes a line of a controller, or reads beyond its end.
TEST(ControllerLog, OtherTextIsNoLineOfAController) {
  constexpr auto kTime = "time=2026-11-20T12:07:35.042Z ";
  for (auto rest : {"", "level=info message=x", "controller=a.B", "message=\"x controller=a.B\"",
                    "message=\"x\\\" controller=a.B", "message= controller=a.B", "=", "\"", "\\"}) {
    auto line = kj::str(kTime, rest);
    EXPECT_TRUE(readControllerLine(line) == nullptr) << line.cStr();
  }
  EXPECT_TRUE(readControllerLine("time=yesterday message=x controller=a.B"_kj) == nullptr);
  EXPECT_TRUE(readControllerLine("message=x controller=a.B"_kj) == nullptr);
  auto hidden = kj::str(kTime, "controller=a.B message=\"x\\x1b[2K\\ny\"");
  EXPECT_EQ(KJ_ASSERT_NONNULL(readControllerLine(hidden)).message, "x\\x1b[2K\\ny");
}

}  // namespace
}  // namespace talos
