#include "machined/storage/file-system-watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"

namespace talos::machined {
namespace {

constexpr const char* kMounts =
    "21 1 7:0 / / ro - squashfs /dev/loop0 ro\n"
    "22 21 0:5 / /proc rw - proc proc rw\n"
    "23 21 254:5 / /system/state rw - xfs /dev/vda5 rw\n"
    "24 21 254:6 / /var rw - xfs /dev/vda6 rw\n"
    "25 21 254:6 /lib/kubelet /etc/kubelet rw - xfs /dev/vda6 rw\n"
    "26 21 254:17 / /var/lib/data rw - xfs /dev/vdb1 rw\n";

struct FileSystems : testing::Test {
  ~FileSystems() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::map<std::string, std::string> wrong;  // by target; "hangs": no answer
  std::map<std::string, unsigned> looks;
  unsigned changes = 0;
  bool readable = true;
  FileSystemWatch watch{{timer,
                         [this]() -> kj::Promise<kj::String> {
                           if (!readable) return error(ErrorKind::kUnavailable, "all threads hang");
                           return kj::str(kMounts);
                         },
                         [this](kj::String target) -> kj::Promise<void> {
                           ++looks[target.cStr()];
                           auto& text = wrong[target.cStr()];
                           if (text == "hangs") return kj::NEVER_DONE;
                           if (text.empty()) return kj::READY_NOW;
                           return error(ErrorKind::kUnavailable, text.c_str());
                         },
                         [this]() { ++changes; }}};
  kj::Promise<void> watching = watch.watch().eagerlyEvaluate(nullptr);

  std::string problems() { return kj::strArray(watch.problems(), "\n").cStr(); }
};

}  // namespace

// Catches: a file system that the kernel has shut down, and a node that says it is well; one that
// is told again and again, or still when it was repaired; one of the image or of the kernel that is
// taken for one of a disk, or a part of one that is looked at twice.
TEST_F(FileSystems, AreToldWhenTheyFailAndWhenTheyWorkAgain) {
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(changes, 0u);
  EXPECT_EQ(looks.size(), 3u);
  wrong["/var"] = "Input/output error";
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(problems(),
            "EPHEMERAL: the file system of /dev/vda6 does not work any more: Input/output error; "
            "see talosctl dmesg, then reboot, or replace the disk");
  EXPECT_EQ(changes, 1u);
  wrong["/system/state"] = wrong["/var/lib/data"] = "Input/output error";
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(watch.problems().size(), 3u);
  EXPECT_TRUE(watch.problems()[0].startsWith("STATE: the file system of /dev/vda5 "));
  EXPECT_TRUE(watch.problems()[2].startsWith("/var/lib/data: the file system of /dev/vdb1 "));
  EXPECT_EQ(changes, 2u);
  wrong.clear();
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(problems(), "");
  EXPECT_EQ(changes, 3u);
}

// Catches: a disk that does not answer, and ends the looking at all of them without a word; a
// thread pool that is busy once, which ends it.
TEST_F(FileSystems, ThatDoNotAnswer) {
  wrong["/system/state"] = "hangs";
  wrong["/var"] = "Input/output error";
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_THAT(problems(), testing::AllOf(testing::HasSubstr("it did not answer within 35 s"),
                                         testing::HasSubstr("Input/output error")));
  readable = false;
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_THAT(problems(), testing::HasSubstr("it did not answer within 35 s"));
  readable = true;
  wrong.clear();
  advance(timer, scope, 120 * kj::SECONDS);
  EXPECT_EQ(problems(), "");
}

}  // namespace talos::machined
