#include "machined/oom/cgroup-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "common/base/error.h"
#include "common/testing/provided.h"
#include "machined/oom/test-cgroup-tree.h"

namespace talos::machined {
namespace {

std::string shown(const kj::Vector<KillCandidate>& list) {
  std::string text;
  for (auto& each : list) {
    text += kj::str(each.path, " ", cel::nameOf(each.cgroupClass), " ",
                    each.uses[kCurrent].orDefault(0), " ", each.uses[kMax].orDefault(0), "\n")
                .cStr();
  }
  return text;
}

auto& classIn(const MemorySample& sample, CgroupClass cgroupClass) {
  return sample.classes[static_cast<size_t>(cgroupClass)];
}

// Catches: "full" that is taken for "some"; a text of the kernel of another form that stops the
// brain.
TEST(CgroupMemory, PressureIsReadFromTheKernelsText) {
  auto pressure = parsePressure(
      "some avg10=1.50 avg60=2.00 avg300=3.00 total=4000\n"
      "full avg10=0.25 avg60=0.50 avg300=0.75 total=123456789012\n");
  EXPECT_EQ(1.5, pressure.values[kSomeAvg10]);
  EXPECT_EQ(4000, pressure.values[kSomeTotal]);
  EXPECT_EQ(0.25, pressure.values[kFullAvg10]);
  EXPECT_EQ(0.5, pressure.values[kFullAvg60]);
  EXPECT_EQ(123456789012, pressure.values[kFullTotal]);
  for (auto text : {"", "some", "full avg10", "full avg10= avg60=x", "other avg10=9.00\n"}) {
    EXPECT_EQ(0, parsePressure(text).values[kFullAvg10]) << text;
  }
}

// Catches: a class that is measured by another cgroup; a limit of one of two services that counts
// as that of both.
TEST(CgroupMemory, SampleHasEachClass) {
  TestCgroupTree files;
  files.pressure(4, 400);
  files.cgroup("system", 100);
  files.pressureOf("system", 3, 30);
  files.cgroup("system/cri", 10, "1000");
  files.pressureOf("system/cri", 1, 10);
  files.cgroup("system/kubelet", 5, "2000");
  files.pressureOf("system/kubelet", 2, 9);
  files.cgroup("kubepods/burstable", 7);
  auto sample = KJ_ASSERT_NONNULL(files.memory().sample());
  EXPECT_EQ(4, sample.node.values[kFullAvg10]);
  EXPECT_EQ(800, sample.node.values[kSomeTotal]);
  auto& system = classIn(sample, CgroupClass::kSystem);
  EXPECT_EQ(3, system.pressure.values[kFullAvg10]);
  EXPECT_TRUE(isinf(system.uses[kMax]));
  auto& runtime = classIn(sample, CgroupClass::kPodruntime);
  EXPECT_EQ(2, runtime.pressure.values[kFullAvg10]);
  EXPECT_EQ(10, runtime.pressure.values[kFullTotal]);
  EXPECT_EQ(2u, runtime.measured);
  EXPECT_EQ(15, runtime.uses[kCurrent]);
  EXPECT_EQ(17, runtime.uses[kPeak]);
  EXPECT_EQ(3000, runtime.uses[kMax]);
  EXPECT_EQ(7, classIn(sample, CgroupClass::kBurstable).uses[kCurrent]);
  EXPECT_EQ(0, classIn(sample, CgroupClass::kBesteffort).uses[kCurrent]);
}

// Catches: a kernel without PSI whose memory seems to be without pressure for ever.
TEST(CgroupMemory, NoSampleWithoutPressureOfTheKernel) {
  TestCgroupTree files;
  removeTree(files.tree.at("proc/pressure"));
  EXPECT_TRUE(files.memory().sample() == nullptr);
}

// Catches: the cgroup of process 1 and the brain, or a group of all pods, as a candidate; a pod
// that has been killed already and is chosen again.
TEST(CgroupMemory, CandidatesArePodsAndServicesWithProcesses) {
  TestCgroupTree files;
  files.cgroup("init", 1);
  files.cgroup("system", 1);
  files.cgroup("system/etcd", 2);
  files.cgroup("system/cri", 3);
  files.cgroup("system/ext-a.b", 4);
  files.cgroup("system/old", 3, "max", "", false);
  files.cgroup("kubepods", 9);
  files.cgroup("kubepods/podg", 4, "4000");
  files.cgroup("kubepods/besteffort", 9);
  files.cgroup("kubepods/besteffort/poda", 5);
  files.cgroup("kubepods/besteffort/podb", 6, "max", "", false);
  files.cgroup("kubepods/burstable/podc", 7);
  files.cgroup("kubepods/burstable/podc/container", 7);
  EXPECT_EQ(
      "kubepods/besteffort/poda Besteffort 5 0\n"
      "kubepods/burstable/podc Burstable 7 0\n"
      "kubepods/podg Guaranteed 4 4000\n"
      "system/cri Podruntime 3 0\n"
      "system/etcd System 2 0\n"
      "system/ext-a.b System 4 0\n",
      shown(files.memory().candidates()));
}

// Catches: a kill that is reported although the cgroup has disappeared; containers of a pod that
// are not counted.
TEST(CgroupMemory, KillCountsTheProcessesOfAllContainers) {
  TestCgroupTree files;
  files.cgroup("kubepods/besteffort/poda", 5, "max", "");
  // Numbers above the kernel's largest pid.
  files.cgroup("kubepods/besteffort/poda/pause", 1, "max", "4194400\n");
  files.cgroup("kubepods/besteffort/poda/main", 1, "max", "4194401\n4194402\n");
  files.cgroup("kubepods/besteffort/poda/main/init.scope", 1, "max", "4194403\n");
  auto memory = files.memory();
  auto killed = memory.kill("kubepods/besteffort/poda");
  EXPECT_EQ(4u, killed.processes);
  EXPECT_TRUE(files.isKilled("kubepods/besteffort/poda"));
  EXPECT_FALSE(files.isKilled("kubepods/besteffort/poda/main")) << "the kernel kills all below";
  auto failed = kj::runCatchingExceptions([&] { memory.kill("kubepods/besteffort/podz"); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failed)).cStr(),
              testing::HasSubstr("podz: No such file or directory"));
}

// A cgroup of the kernel, below the root of its tree, which only this thread's mounts show.
class RealCgroup {
 public:
  explicit RealCgroup(kj::StringPtr root) : path(kj::str(root, "/talos-oom-test-", getpid())) {
    KJ_SYSCALL(mkdir(path.cStr(), 0755));
    for (auto below : {"/pod", "/pod/main"}) KJ_SYSCALL(mkdir(kj::str(path, below).cStr(), 0755));
  }
  ~RealCgroup() noexcept(false) {
    for (auto below : {"/pod/main", "/pod", ""}) rmdir(kj::str(path, below).cStr());
  }
  kj::String path;
};

int runInRealCgroup() {
  KJ_SYSCALL(unshare(CLONE_NEWNS));
  KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  KJ_SYSCALL(mount("cgroup2", "/tmp", "cgroup2", 0, nullptr));
  RealCgroup real("/tmp");
  pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  auto procs = kj::str(real.path, "/pod/main/cgroup.procs");
  kj::AutoCloseFd file(open(procs.cStr(), O_WRONLY | O_CLOEXEC));
  auto pid = kj::str(child);
  KJ_SYSCALL(write(file, pid.begin(), pid.size()));
  auto killed = CgroupMemory(real.path).kill("pod");
  releaseMemory(killed.pidfds);
  int status = 0;
  KJ_SYSCALL(waitpid(child, &status, 0));
  return killed.processes == 1 && killed.pidfds.size() == 1 && WIFSIGNALED(status) &&
                 WTERMSIG(status) == SIGKILL
             ? 0
             : 1;
}

// Catches: a file or a value that the kernel does not take; processes of a container that outlive
// their pod.
TEST(CgroupMemory, KernelKillsAllBelowTheCgroup) {
  TALOS_NEEDS(isRootOfTheHost(), "root", "this test makes cgroups");
  pid_t child = fork();
  if (child == 0) {
    int result = 2;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { result = runInRealCgroup(); })) {
      fprintf(stderr, "%s\n", kj::str(*e).cStr());
    }
    _exit(result);
  }
  int status = 0;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
}

}  // namespace
}  // namespace talos::machined
