// With real mounts, in a mount namespace of this test.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>

#include "common/base/error.h"
#include "machined/process1/test-process1.h"
#include "machined/system/system-tree.h"
#include "machined/system/test-system-tree.h"
#include "machined/system/trusted-bundle.h"
#include "machined/system/var-directory.h"

namespace talos::machined {
namespace {

using config::FileOp;
using testing::HasSubstr;

// STATX_MNT_ID_UNIQUE of Linux 6.8, which is not in all headers: a number that is never used again.
constexpr unsigned kMountIdUnique = 0x4000;

class MountsTest : public testing::Test {
 public:
  ~MountsTest() noexcept override {}

 protected:
  TestSystemTree tree;
  KernelMounts mounts;

  static void SetUpTestSuite() {
    ASSERT_EQ(0, unshare(CLONE_NEWNS)) << "needs root";
    ASSERT_EQ(0, mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  }
  // Mounts the image: read-only, and a separate file system.
  void SetUp() override {
    ASSERT_EQ(0, mount("tmpfs", tree.root.cStr(), "tmpfs", 0, "mode=0755"));
    for (auto folder : {"/var", "/system", "/etc/ssl/certs", "/etc/kubernetes", "/etc/cni", "/opt",
                        "/usr/libexec/kubernetes", "/usr/etc/udev"})
      makeDirectories(tree.path(folder));
    tree.put("/etc/ssl/certs/ca-certificates.crt", "A\n");
    tree.link("ca-certificates.crt", "/etc/ssl/certs/ca-certificates");
    ASSERT_EQ(0, mount(nullptr, tree.root.cStr(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr));
  }
  void TearDown() override { EXPECT_EQ(0, umount2(tree.root.cStr(), MNT_DETACH)); }

  void write(UserFile file) {
    auto result = writeUserFiles(tree.root, mounts, kj::arrayPtr(&file, 1));
    EXPECT_EQ(0u, result.problems.size()) << result.problems[0].cStr();
  }
  static int tryOpenForWriting(kj::StringPtr path) {
    int fd = open(path.cStr(), O_WRONLY | O_CLOEXEC);
    if (fd >= 0) close(fd);
    return fd >= 0 ? 0 : errno;
  }
};

// Catches: a /var that a restarted brain mounts a second time over its content; a /var without a
// size limit; directories that other users may enter.
TEST_F(MountsTest, VarIsMemoryOnce) {
  auto var = tree.path("/var");
  EXPECT_FALSE(mounts.isMountPoint(var));
  EXPECT_TRUE(mountEphemeral(tree.root, mounts));
  EXPECT_TRUE(mounts.isMountPoint(var));
  tree.put("/var/kept", "x");
  EXPECT_TRUE(mountEphemeral(tree.root, mounts)) << "still memory, and said so again";
  EXPECT_EQ("x", tree.get("/var/kept"));
  EXPECT_EQ(0755u, tree.mode("/var"));
  auto mounted = readFile("/proc/self/mountinfo");
  EXPECT_THAT(mounted.cStr(), HasSubstr(kj::str(var, " rw,nosuid,nodev").cStr()));
  EXPECT_THAT(mounted.cStr(), HasSubstr("nr_inodes=262144"));
  for (int run = 0; run < 2; ++run) {
    setupVarDirectory(tree.root);
    for (auto path : {"/var/log/pods", "/var/log/audit/kube", "/var/lib/kubelet", "/var/run/lock"})
      EXPECT_EQ(0700u, tree.mode(path)) << path;
    EXPECT_EQ(0755u, tree.mode("/var/log"));
  }
}

// Catches: static pods that cannot be written; a second overlay over the first one.
TEST_F(MountsTest, OverlaysMakeTheirDirectoriesWritable) {
  mountEphemeral(tree.root, mounts);
  for (int run = 0; run < 2; ++run) mountOverlays(tree.root, mounts);
  write(UserFile(FileOp::CREATE, "/etc/kubernetes/manifests/pod.yaml", "x\n", 0600));
  EXPECT_EQ("x\n", tree.get("/etc/kubernetes/manifests/pod.yaml"));
  EXPECT_EQ("x\n", tree.get("/var/system/overlays/etc-kubernetes-diff/manifests/pod.yaml"));
  tree.put("/opt/x", "x");
  EXPECT_EQ(0755u, tree.mode("/etc/kubernetes"));
  auto mounted = readFile("/proc/self/mountinfo");
  size_t count = 0;
  for (auto* at = mounted.cStr(); (at = strstr(at, "/etc/kubernetes ")) != nullptr; ++at) ++count;
  EXPECT_EQ(1u, count);
}

// Catches: an /etc that pods can write to, or that loses files of the image or mounts below it; a
// path through a file that hides the file; a mount that stays covered, so that /var cannot be
// unmounted; a second run on top of the first one.
TEST_F(MountsTest, EtcGetsTheFilesOfTheConfig) {
  mountEphemeral(tree.root, mounts);
  mounts.tmpfs(tree.path("/system"), "mode=0755");
  mountOverlays(tree.root, mounts);
  auto paths = kj::arr(kj::str("/etc/multipath/multipath.conf"), kj::str("/etc/new.conf"),
                       kj::str("/etc/ssl/certs/ca-certificates.crt"),
                       kj::str("/etc/ssl/certs/ca-certificates.crt/x"), kj::str("/etc/new.conf/x"));
  for (int run = 0; run < 2; ++run) addToEtc(tree.root, mounts, paths);
  EXPECT_EQ("A\n", tree.get("/etc/ssl/certs/ca-certificates.crt"));
  EXPECT_EQ(EROFS, tryOpenForWriting(tree.path("/etc/new.conf")));
  EXPECT_EQ(0755u, tree.mode("/etc/multipath"));
  EXPECT_EQ(0600u, tree.mode("/etc/new.conf")) << "until it has its content";
  for (auto content : {"a"_kj, "b"_kj}) {
    write(UserFile(FileOp::CREATE, "/etc/multipath/multipath.conf", content, 0640));
    EXPECT_EQ(content.cStr(), tree.get("/etc/multipath/multipath.conf"));
    EXPECT_EQ(0640u, tree.mode("/etc/multipath/multipath.conf"));
    EXPECT_EQ(EROFS, tryOpenForWriting(tree.path("/etc/multipath/multipath.conf")));
  }
  write(UserFile(FileOp::CREATE, "/etc/kubernetes/manifests/pod.yaml", "x\n", 0600));
  EXPECT_EQ("x\n", tree.get("/var/system/overlays/etc-kubernetes-diff/manifests/pod.yaml"));
  auto mounted = readFile("/proc/self/mountinfo");
  for (auto target : {"/etc ", "/etc/kubernetes ", "/etc/cni "}) {
    size_t count = 0;
    auto mark = kj::str(tree.root, target);
    for (auto* at = mounted.cStr(); (at = strstr(at, mark.cStr())) != nullptr; ++at) ++count;
    EXPECT_EQ(1u, count) << target;
  }
}

// Catches: a bind mount that can be written to; content that is based on the mount of the last run;
// a second name that shows the old content; mounts that accumulate; a file that is mounted again
// under its readers although it is the same.
TEST_F(MountsTest, FilesOfTheImageAreReplacedReadOnly) {
  mountEphemeral(tree.root, mounts);
  auto file = tree.path("/etc/ssl/certs/ca-certificates.crt");
  uint64_t before = 0;
  for (auto content : {"B\n"_kj, "B\n"_kj, "C\n"_kj}) {
    write(UserFile(FileOp::APPEND, "/etc/ssl/certs/ca-certificates", content, 0644));
    EXPECT_EQ(std::string("A\n\n") + content.cStr(), tree.get("/etc/ssl/certs/ca-certificates"));
    EXPECT_EQ(std::string("A\n\n") + content.cStr(),
              tree.get("/etc/ssl/certs/ca-certificates.crt"));
    EXPECT_EQ(EROFS, tryOpenForWriting(file));
    struct statx found;
    ASSERT_EQ(0, statx(AT_FDCWD, file.cStr(), 0, kMountIdUnique, &found));
    ASSERT_NE(0u, found.stx_mask & kMountIdUnique);
    if (content == "B\n" && before != 0) EXPECT_EQ(before, found.stx_mnt_id);
    before = found.stx_mnt_id;
  }
  EXPECT_EQ(0, tryOpenForWriting(tree.path("/var/etc/ssl/certs/ca-certificates.crt")));
  mounts.unmount(file);
  EXPECT_FALSE(mounts.isMountPoint(file)) << "there was more than one mount";
  EXPECT_EQ("A\n", tree.get("/etc/ssl/certs/ca-certificates.crt"));
}

// Catches: CAs of a document that act at the next boot only, or stay after their document has left;
// a second mount over the first one; a change of the CAs that writes other files; CAs of a config
// that the boot has not written yet and that a connection lacks, or those of another config.
TEST_F(MountsTest, TheBundleFollowsTheConfig) {
  mountEphemeral(tree.root, mounts);
  capnp::MallocMessageBuilder message;
  auto machine = message.initRoot<config::Machine>();
  auto file = machine.initFiles(1)[0];
  file.setOp(FileOp::APPEND);
  file.setPath("/etc/ssl/certs/ca-certificates");
  file.setContent("F\n");
  FakeMachine host;
  FakeProcess1 process1{host};
  UserFileProblems boot(process1);
  TrustedBundle bundle(mounts, boot, tree.root);
  auto shown = [&] {
    EXPECT_TRUE(bundle.apply(bundle.nextChange(), userFiles(machine)).empty());
    return tree.get("/etc/ssl/certs/ca-certificates.crt");
  };
  auto early = kj::arr(kj::str("# one\n1\n"), kj::str("# two\n2\n"));
  EXPECT_EQ("A\n\n# one\n1\n\n# two\n2\n", bundleWith(mounts, early, tree.root));
  EXPECT_EQ("A\n\nF\n", shown());
  EXPECT_EQ("A\n", bundleWith(mounts, nullptr, tree.root));
  auto roots = machine.initTrustedRoots(2);
  roots[0].setValue("# one\n1\n");
  roots[1].setValue("# two\n2\n");
  EXPECT_EQ("A\n\nF\n\n# one\n1\n\n# two\n2\n", shown());
  machine.initFiles(1)[0].setPath("/var/other");
  EXPECT_EQ("A\n\n# one\n1\n\n# two\n2\n", shown());
  EXPECT_EQ(ENOENT, tryOpenForWriting(tree.path("/var/other")));
  machine.initTrustedRoots(0);
  EXPECT_EQ("A\n", shown());
  EXPECT_FALSE(mounts.isMountPoint(tree.path("/etc/ssl/certs/ca-certificates.crt")));
}

// Catches: a thread that is late and writes the CAs of an earlier config over those of a later one;
// a change that writes the bundle at the same time as the boot, or waits for the boot for ever.
TEST_F(MountsTest, TheBundleIsThatOfTheLastChange) {
  mountEphemeral(tree.root, mounts);
  FakeMachine host;
  FakeProcess1 process1{host};
  UserFileProblems boot(process1);
  TrustedBundle bundle(mounts, boot, tree.root);
  UserFile file(FileOp::APPEND, "/etc/ssl/certs/ca-certificates.crt", "B\n", 0644);
  auto early = bundle.nextChange(), late = bundle.nextChange();
  {
    auto lock = boot.writing.lockExclusive();
    EXPECT_THROW(bundle.apply(late, kj::arrayPtr(&file, 1), 1 * kj::MILLISECONDS), kj::Exception);
    EXPECT_EQ("A\n", tree.get("/etc/ssl/certs/ca-certificates.crt"));
  }
  EXPECT_TRUE(bundle.apply(late, kj::arrayPtr(&file, 1)).empty());
  EXPECT_TRUE(bundle.apply(early, nullptr).empty());
  EXPECT_EQ("A\n\nB\n", tree.get("/etc/ssl/certs/ca-certificates.crt"));
}

// Catches: a refusal that does not name its target.
TEST_F(MountsTest, RefusalsNameTheirTarget) {
  auto failed = kj::runCatchingExceptions([&]() { mounts.tmpfs(tree.path("/absent"), ""); });
  EXPECT_EQ(
      kj::str("cannot mount a tmpfs on ", tree.path("/absent"), ": No such file or directory"),
      messageOf(KJ_ASSERT_NONNULL(failed)));
  failed = kj::runCatchingExceptions([&]() { mounts.unmount(tree.path("/etc")); });
  EXPECT_EQ(kj::str("cannot unmount ", tree.path("/etc"), ": Invalid argument"),
            messageOf(KJ_ASSERT_NONNULL(failed)));
}

}  // namespace
}  // namespace talos::machined
