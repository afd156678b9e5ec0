#include "talosctl/cluster/containers/container-plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <set>
#include <string>

namespace talos::container {
namespace {

kj::Vector<Step> plan(kj::ArrayPtr<const CgroupMount> cgroups) {
  return planContainer({.stateFolder = "/s",
                        .ephemeralFolder = "/v",
                        .slotsFolder = "/b",
                        .arguments = "talos.slot=B",
                        .bootId = "id",
                        .cgroups = cgroups});
}

kj::Vector<Step> unifiedPlan() {
  auto cgroups = kj::arr(CgroupMount{kj::str(), kj::str()});
  return plan(cgroups);
}

// The last mount on this path, with its flags.
struct Mounted {
  std::string from;
  unsigned long flags = 0;
  int at = -1;
  bool optional = false;
};
Mounted on(kj::ArrayPtr<const Step> steps, kj::StringPtr path) {
  Mounted mounted;
  for (int i = 0; i < int(steps.size()); ++i) {
    auto& step = steps[i];
    if (step.kind != Step::Kind::kMount || step.path != path) continue;
    if (step.flags & MS_REMOUNT) {
      mounted.flags = step.flags;
    } else {
      mounted.from = (step.type.size() > 0 ? step.type : step.source).cStr();
      mounted.flags = step.flags;
    }
    mounted.at = i;
    mounted.optional = step.optional;
  }
  return mounted;
}

// Catches: a cache of images that a node can change, or that a node gets without one.
TEST(ContainerPlan, ACacheOfImagesIsReadOnly) {
  EXPECT_EQ(-1, on(unifiedPlan(), "system/imagecache/disk").at);
  auto cgroups = kj::arr(CgroupMount{kj::str(), kj::str()});
  auto cache = on(planContainer({.stateFolder = "/s",
                                 .ephemeralFolder = "/v",
                                 .slotsFolder = "/b",
                                 .arguments = "",
                                 .bootId = "id",
                                 .cgroups = cgroups,
                                 .imageCache = "/cache"}),
                  "system/imagecache/disk");
  EXPECT_EQ("/cache", cache.from);
  EXPECT_TRUE(cache.flags & MS_RDONLY);
}

// Catches: a remount without MS_BIND, which would change the file system, and so the host's.
TEST(ContainerPlan, NoStepChangesAFileSystemOfTheHost) {
  for (auto& step : unifiedPlan()) {
    if (step.flags & MS_REMOUNT) EXPECT_TRUE(step.flags & MS_BIND) << step.path.cStr();
  }
}

// Catches: writable kernel settings of the host, and read-only settings of the node's own network
// namespace.
TEST(ContainerPlan, OnlyTheNetworksSettingsAreWritable) {
  auto steps = unifiedPlan();
  EXPECT_TRUE(on(steps, "proc/sys").flags & MS_RDONLY);
  auto net = on(steps, "proc/sys/net");
  EXPECT_EQ(net.from, "proc/sys/net");
  EXPECT_FALSE(net.flags & MS_RDONLY);
  // A bind of a read-only mount would be read-only too, and a bind below a later mount would be
  // hidden.
  auto bound = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
    return step.path == "proc/sys" && !(step.flags & MS_REMOUNT);
  });
  EXPECT_GT(net.at, bound - steps.begin());
  EXPECT_LT(net.at, on(steps, "proc/sys").at);
  EXPECT_TRUE(on(steps, "sys").flags & MS_RDONLY);
  for (auto path : {"proc/sysrq-trigger"_kj, "proc/irq"_kj, "proc/bus"_kj, "proc/fs"_kj}) {
    EXPECT_TRUE(on(steps, path).flags & MS_RDONLY) << path.cStr();
    EXPECT_TRUE(on(steps, path).optional) << path.cStr();
  }
}

// Catches: visible memory, keys, kernel addresses or firmware of the host; a host's kernel that
// lacks one of these files, on which no container starts.
TEST(ContainerPlan, WhatIsTheHostsAloneIsHidden) {
  auto steps = unifiedPlan();
  for (auto path : {"proc/kcore"_kj, "proc/keys"_kj, "proc/kallsyms"_kj, "proc/timer_list"_kj,
                    "proc/sched_debug"_kj}) {
    EXPECT_EQ(on(steps, path).from, "dev/null") << path.cStr();
    EXPECT_TRUE(on(steps, path).optional) << path.cStr();
  }
  for (auto path :
       {"sys/firmware"_kj, "sys/kernel/debug"_kj, "sys/kernel/security"_kj, "proc/scsi"_kj}) {
    EXPECT_EQ(on(steps, path).from, "tmpfs") << path.cStr();
    EXPECT_TRUE(on(steps, path).flags & MS_RDONLY) << path.cStr();
    EXPECT_TRUE(on(steps, path).optional) << path.cStr();
  }
  EXPECT_LT(on(steps, "dev").at, on(steps, "proc/kcore").at) << "the null device comes first";
}

// Catches: confused folders (a lost config, or a container store on a tmpfs); a boot id or kernel
// arguments of the host.
TEST(ContainerPlan, StateAndEphemeralAreTheHostsFolders) {
  auto steps = unifiedPlan();
  EXPECT_EQ(on(steps, "system/state").from, "/s");
  EXPECT_EQ(on(steps, "var").from, "/v");
  EXPECT_FALSE(on(steps, "var").flags & MS_RDONLY);
  auto expectFile = [&](kj::StringPtr path, kj::StringPtr text) {
    auto file = std::find_if(steps.begin(), steps.end(),
                             [&](const Step& step) { return step.path == path; });
    ASSERT_NE(file, steps.end()) << path.cStr();
    EXPECT_STREQ(file->source.cStr(), text.cStr());
  };
  EXPECT_EQ(on(steps, "proc/sys/kernel/random/boot_id").from, "run/.boot-id");
  expectFile("run/.boot-id", "id\n");
  EXPECT_EQ(on(steps, "proc/cmdline").from, "run/.cmdline");
  expectFile("run/.cmdline", "talos.slot=B\n");
}

// Catches: slots that others than root of the node see, or that the node cannot write.
TEST(ContainerPlan, SlotsAreAFolderOfTheHost) {
  auto steps = unifiedPlan();
  auto folder = std::find_if(steps.begin(), steps.end(),
                             [](const Step& step) { return step.path == "system/boot"; });
  ASSERT_NE(folder, steps.end());
  EXPECT_EQ(folder->kind, Step::Kind::kFolder);
  EXPECT_EQ(folder->mode, 0700);
  auto slots = on(steps, "system/boot");
  EXPECT_EQ(slots.from, "/b");
  EXPECT_EQ(slots.flags, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC);
}

// Catches: a node that takes the host's memory for its own; a memory file without a limit.
TEST(ContainerPlan, ALimitOfMemoryIsAFile) {
  auto content = [](uint64_t memory) -> std::string {
    for (auto& step : planContainer({.stateFolder = "/s",
                                     .ephemeralFolder = "/v",
                                     .bootId = "id",
                                     .cgroups = nullptr,
                                     .memory = memory})) {
      if (step.path == "run/.meminfo") return step.source.cStr();
    }
    return "none";
  };
  EXPECT_EQ(content(2048ull << 20), "MemTotal: 2097152 kB\nSwapTotal: 0 kB\n");
  EXPECT_EQ(content(0), "none");
}

// Catches: a kubelet that sets the host's parameters, or that does not start because it must not; a
// parameter hidden by another mount; a kernel that lacks a parameter, on which no container starts.
TEST(ContainerPlan, KernelParametersOfTheKubeletAreFilesOfTheNode) {
  auto steps = unifiedPlan();
  for (auto [path, file, value] :
       {std::tuple("proc/sys/vm/overcommit_memory"_kj, "run/.sysctl/vm.overcommit_memory"_kj,
                   "1\n"),
        std::tuple("proc/sys/kernel/panic"_kj, "run/.sysctl/kernel.panic"_kj, "10\n"),
        std::tuple("proc/sys/kernel/keys/root_maxkeys"_kj,
                   "run/.sysctl/kernel.keys.root_maxkeys"_kj, "1000000\n")}) {
    auto shown = on(steps, path);
    EXPECT_EQ(shown.from, file);
    EXPECT_TRUE(shown.optional);
    EXPECT_GT(shown.at, on(steps, "proc/sys").at) << path.cStr();
    auto made = std::find_if(steps.begin(), steps.end(),
                             [&](const Step& step) { return step.path == file; });
    ASSERT_NE(made, steps.end()) << file.cStr();
    EXPECT_STREQ(made->source.cStr(), value);
    EXPECT_LT(made - steps.begin(), shown.at);
  }
}

// Catches: controllers of a hybrid host that are missing or not at their usual place.
TEST(ContainerPlan, CgroupsAreWhereProgramsLookForThem) {
  EXPECT_EQ(on(unifiedPlan(), "sys/fs/cgroup").from, "cgroup2");
  auto hybrid = kj::arr(CgroupMount{kj::str("cpu,cpuacct"), kj::str("cpu,cpuacct")},
                        CgroupMount{kj::str(), kj::str("unified")});
  auto steps = plan(hybrid);
  EXPECT_EQ(on(steps, "sys/fs/cgroup").from, "tmpfs");
  EXPECT_EQ(on(steps, "sys/fs/cgroup/unified").from, "cgroup2");
  auto v1 = on(steps, "sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(v1.from, "cgroup");
  EXPECT_STREQ(steps[v1.at].data.cStr(), "cpu,cpuacct");
}

// Catches: a device of the host in the list, a missing device that programs need, and the host's
// kernel log.
TEST(ContainerPlan, DevicesAreThoseThatHoldNothingOfTheHosts) {
  std::set<std::string> files;
  for (auto& step : unifiedPlan()) {
    if (step.kind != Step::Kind::kDevice) continue;
    files.insert(kj::str(step.path, " ", major(step.device), ":", minor(step.device)).cStr());
    EXPECT_EQ(step.mode & 07777, 0666);
  }
  EXPECT_EQ(files,
            (std::set<std::string>{"dev/null 1:3", "dev/zero 1:5", "dev/full 1:7", "dev/random 1:8",
                                   "dev/urandom 1:9", "dev/tty 5:0", "dev/kmsg 1:3"}));
  for (auto& device : allowedDevices()) {
    EXPECT_FALSE(device.major == 1 && device.minor < 3) << "memory of the host";
    EXPECT_NE(device.minor == kAnyMinor, device.major != 136) << device.major;
  }
}

// Catches: a capability that is missing in the list; a dropped capability that a node needs.
TEST(ContainerPlan, CapabilitiesOfTheHostAreDropped) {
  auto dropped = droppedCapabilities();
  std::set<int> set(dropped.begin(), dropped.end());
  for (int hosts : {CAP_SYS_MODULE, CAP_SYS_TIME, CAP_SYS_RAWIO, CAP_SYSLOG, CAP_WAKE_ALARM,
                    CAP_BLOCK_SUSPEND, CAP_MAC_OVERRIDE, CAP_MAC_ADMIN, CAP_SYS_PACCT}) {
    EXPECT_TRUE(set.contains(hosts)) << hosts;
  }
  for (int nodes : {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_BOOT, CAP_MKNOD, CAP_SYS_RESOURCE,
                    CAP_SETUID, CAP_SYS_CHROOT, CAP_SYS_PTRACE}) {
    EXPECT_FALSE(set.contains(nodes)) << nodes;
  }
}

}  // namespace
}  // namespace talos::container
