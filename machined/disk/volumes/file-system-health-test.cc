#include "machined/disk/volumes/file-system-health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/testing/virtual-time.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kMountTable =
    "21 1 7:0 / / ro - squashfs /dev/loop0 ro\n"
    "22 21 0:5 / /proc rw - proc proc rw\n"
    "23 21 254:5 / /system/state rw - xfs /dev/vda5 rw\n"
    "24 21 254:6 / /var rw - xfs /dev/vda6 rw\n"
    "25 21 254:6 /lib/kubelet /etc/kubelet rw - xfs /dev/vda6 rw\n"
    "26 21 254:17 / /var/lib/data rw - xfs /dev/vdb1 rw\n"
    "27 21 254:18 / /var/lib/more rw - xfs /dev/vdb2 rw\n"
    "28 21 8:1 / /var/lib/kubelet/pods/1/volumes/csi/mount rw - xfs /dev/sda1 rw\n";

struct FileSystems : testing::Test {
  ~FileSystems() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::map<std::string, std::string> wrong;  // by target; "hangs": no answer
  std::map<std::string, unsigned> looks;
  std::map<std::string, kj::Own<kj::PromiseFulfiller<void>>> hanging;
  std::vector<std::vector<std::string>> reports;
  bool readable = true, goesDown = false;
  FileSystemWatch watch{
      {.timer = timer,
       .mounts = [this]() -> kj::Promise<kj::String> {
         if (!readable) return error(ErrorKind::kUnavailable, "all threads hang");
         return kj::str(kMountTable);
       },
       .targets =
           [this]() {
             kj::Vector<kj::String> targets;
             if (goesDown) return targets;
             for (auto target :
                  {"/system/state", "/var", "/var/lib/data", "/var/lib/more", "/mnt"}) {
               targets.add(kj::str(target));
             }
             return targets;
           },
       .readFolder = [this](kj::String target) -> kj::Promise<kj::Maybe<kj::String>> {
         std::string at = target.cStr();
         ++looks[at];
         auto text = wrong[at];
         if (text == "refused") return error(ErrorKind::kUnavailable, "all threads hang");
         if (text == "hangs") {
           EXPECT_EQ(hanging.count(at), 0u) << at << " is looked at twice at once";
           auto paf = kj::newPromiseAndFulfiller<void>();
           hanging[at] = kj::mv(paf.fulfiller);
           return paf.promise.then([]() -> kj::Maybe<kj::String> { return nullptr; });
         }
         if (text.empty()) return kj::Maybe<kj::String>();
         return kj::Maybe<kj::String>(kj::str(text.c_str()));
       },
       .changed =
           [this](kj::ArrayPtr<const kj::StringPtr> fresh) {
             auto& names = reports.emplace_back();
             for (auto problem : fresh)
               names.push_back(
                   kj::str(problem.slice(0, KJ_ASSERT_NONNULL(problem.findFirst(':')))).cStr());
           }}};
  kj::Promise<void> watching = watch.watch().eagerlyEvaluate(nullptr);

  std::string problems() { return kj::strArray(watch.problems(), "\n").cStr(); }
};

}  // namespace

// Catches: a file system that the kernel has shut down on a node that reports no problem; a problem
// that is reported again when another one appears, or each time, or after its repair; a file system
// of the image, the kernel or a pod that is taken for one of the node, or a part of a file system
// that is checked twice.
TEST_F(FileSystems, AreReportedWhenTheyFailAndWhenTheyRecover) {
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_THAT(reports, ElementsAre());
  EXPECT_EQ(looks.size(), 4u);
  EXPECT_EQ(looks["/var"], 6u);
  wrong["/var"] = "Input/output error";
  advance(timer, scope, 20 * kj::SECONDS);
  EXPECT_EQ(problems(),
            "EPHEMERAL: the file system of /dev/vda6 failed: Input/output error; "
            "see talosctl dmesg, then reboot, or replace the disk");
  EXPECT_THAT(reports, ElementsAre(ElementsAre("EPHEMERAL")));
  wrong["/system/state"] = wrong["/var/lib/data"] = "Input/output error";
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(watch.problems().size(), 3u);
  EXPECT_TRUE(watch.problems()[0].startsWith("STATE: the file system of /dev/vda5 "));
  EXPECT_TRUE(watch.problems()[2].startsWith("/var/lib/data: the file system of /dev/vdb1 "));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_THAT(reports[1], ElementsAre("STATE", "/var/lib/data"));
  wrong.clear();
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(problems(), "");
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_THAT(reports[2], ElementsAre());
}

// Catches: disks that do not answer and end the checks of the others, or are waited for one after
// the other, so that the last one is reported minutes later; a hanging disk that is checked
// repeatedly; a disk that is not checked any more after it answers again.
TEST_F(FileSystems, ThatDoNotAnswer) {
  for (auto one : {"/system/state", "/var", "/var/lib/data"}) wrong[one] = "hangs";
  advance(timer, scope, 20 * kj::SECONDS);
  wrong["/var/lib/more"] = "Input/output error";
  advance(timer, scope, 12 * kj::SECONDS);
  EXPECT_THAT(reports, ElementsAre(ElementsAre("/var/lib/more")));
  advance(timer, scope, 28 * kj::SECONDS);
  EXPECT_EQ(watch.problems().size(), 4u);
  EXPECT_THAT(problems(), HasSubstr("STATE: the file system of /dev/vda5 failed: it "
                                    "did not answer within 35 s; "));
  advance(timer, scope, 10 * kj::MINUTES);
  EXPECT_EQ(looks["/system/state"], 1u);
  EXPECT_EQ(watch.problems().size(), 4u);
  wrong.clear();
  hanging["/var"]->fulfill();
  hanging.erase("/var");
  advance(timer, scope, 20 * kj::SECONDS);
  EXPECT_THAT(problems(), testing::Not(HasSubstr("EPHEMERAL")));
  EXPECT_EQ(watch.problems().size(), 2u);
  wrong["/var"] = "Input/output error";
  advance(timer, scope, 20 * kj::SECONDS);
  EXPECT_THAT(problems(), HasSubstr("EPHEMERAL"));
}

// Catches: a busy thread pool that is reported as a disk that fails, or as a disk that works again.
TEST_F(FileSystems, OfWhichNothingIsKnown) {
  wrong["/var"] = "Input/output error";
  advance(timer, scope, 20 * kj::SECONDS);
  auto before = problems();
  EXPECT_THAT(before, HasSubstr("EPHEMERAL"));
  for (auto one : {"/system/state", "/var", "/var/lib/data"}) wrong[one] = "refused";
  advance(timer, scope, 2 * kj::MINUTES);
  EXPECT_EQ(problems(), before);
  readable = false;
  advance(timer, scope, 2 * kj::MINUTES);
  EXPECT_EQ(problems(), before);
  readable = true;
  wrong.clear();
  advance(timer, scope, 20 * kj::SECONDS);
  EXPECT_EQ(problems(), "");
  EXPECT_EQ(reports.size(), 2u);
}

// Catches: a check that keeps a file system from being unmounted.
TEST_F(FileSystems, AreLeftAloneOnTheWayDown) {
  advance(timer, scope, 60 * kj::SECONDS);
  goesDown = true;
  looks.clear();
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(looks.size(), 0u);
}

// Catches: a folder that was unmounted and removed between two checks, reported as a failing disk;
// an error that is not reported.
TEST(FileSystemsOfDisks, AFolderThatIsGoneIsNoFailure) {
  auto io = kj::setupAsyncIo();
  ReadPool pool(io.provider->getTimer(), {}, [](kj::StringPtr) {});
  auto real = fileSystemsOfDisks(
      io.provider->getTimer(), pool, []() { return kj::Vector<kj::String>(); },
      [](kj::ArrayPtr<const kj::StringPtr>) {});
  EXPECT_TRUE(real.mounts().wait(io.waitScope).size() > 0);
  EXPECT_TRUE(real.readFolder(kj::str("/proc")).wait(io.waitScope) == nullptr);
  EXPECT_TRUE(real.readFolder(kj::str("/proc/no-such-folder")).wait(io.waitScope) == nullptr);
  auto wrong = real.readFolder(kj::str("/proc/self/stat")).wait(io.waitScope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(wrong), "Not a directory");
}

}  // namespace talos::machined
