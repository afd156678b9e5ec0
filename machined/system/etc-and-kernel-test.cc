#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "machined/system/etc-files.h"
#include "machined/system/kernel-parameters.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Folder {
  kj::String path;
  Folder() {
    char name[] = "/tmp/tasks-test-XXXXXX";
    path = kj::str(mkdtemp(name));
  }
  ~Folder() noexcept(false) { removeTree(path); }
};

KernelArguments parse(kj::StringPtr text) {
  return KernelArguments(text.asArray());
}

// Catches: a wrong value that passes as present; a missing one that is not named.
TEST(Kspp, NamesWhatIsMissingOrWrong) {
  EXPECT_EQ(0u, missingKsppParameters(parse("slab_nomerge pti=on")).size());
  auto missing = missingKsppParameters(parse("pti=off"));
  ASSERT_EQ(2u, missing.size());
  EXPECT_EQ("kernel parameter slab_nomerge is missing", missing[0]);
  EXPECT_EQ("kernel parameter pti is \"off\", must be pti=on", missing[1]);
}

// Catches: a key that is written to the wrong place; a missing key that ends the others.
TEST(Sysctls, AreWrittenWhereTheyBelong) {
  Folder folder;
  makeDirectories(kj::str(folder.path, "/net/ipv4"));
  auto file = kj::str(folder.path, "/net/ipv4/ip_forward");
  writeFileAtomically(file, kj::StringPtr("0").asArray(), 0600);
  Sysctl list[] = {{"net.bridge.x", "1"}, {"net.ipv4.ip_forward", "1"}};
  auto result = writeSysctls(folder.path, list);
  ASSERT_EQ(1u, result.absent.size());
  EXPECT_EQ("net.bridge.x", result.absent[0]);
  EXPECT_TRUE(result.refused.empty());
  EXPECT_EQ("1", readFile(file));
}

// Catches: a network link that loses its addresses and routes because the node forwards; a link
// that accepts advertisements although they were switched off; links of pods, to which a pod could
// send routes.
TEST(Sysctls, LinksThatAreThereGoOnWithRouterAdvertisements) {
  Folder folder;
  auto file = [&](kj::StringPtr link) {
    return kj::str(folder.path, "/net/ipv6/conf/", link, "/accept_ra");
  };
  auto put = [&](kj::StringPtr link, kj::StringPtr value) {
    makeDirectories(kj::str(folder.path, "/net/ipv6/conf/", link));
    writeFileAtomically(file(link), value.asArray(), 0600);
  };
  EXPECT_TRUE(acceptRouterAdvertisements(folder.path).empty()) << "a kernel without IPv6";
  for (auto link : {"all", "default", "lo", "eth0"}) put(link, "1\n");
  put("eth1", "0\n");
  auto changed = acceptRouterAdvertisements(folder.path);
  ASSERT_EQ(1u, changed.size());
  EXPECT_EQ("eth0", changed[0]);
  EXPECT_EQ("2\n", readFile(file("eth0")));
  EXPECT_EQ("0\n", readFile(file("eth1")));
  EXPECT_EQ("1\n", readFile(file("default")));
}

// Catches: a refused setting that is not reported.
TEST(Sysctls, RefusedOnesAreNamed) {
  Folder folder;
  makeDirectories(kj::str(folder.path, "/a"));
  Sysctl list[] = {{"a", "1"}};
  auto result = writeSysctls(folder.path, list);
  ASSERT_EQ(1u, result.refused.size());
  EXPECT_EQ("a=1: Is a directory", result.refused[0]);
}

// Catches: a parameter of the host's that a container writes: all but those that the kernel has for
// each network namespace (net.core.bpf_jit_harden is not one of them).
TEST(Sysctls, ContainersWriteTheirNetworkOnly) {
  std::vector<std::string> keys;
  for (auto& s : requiredSysctls(true)) keys.push_back(s.key.cStr());
  EXPECT_THAT(keys,
              ElementsAre("net.ipv4.ip_forward", "net.ipv6.conf.default.forwarding",
                          "net.ipv6.conf.all.forwarding", "net.ipv4.conf.all.promote_secondaries",
                          "net.ipv4.conf.default.promote_secondaries"));
  EXPECT_EQ(15u, requiredSysctls(false).size());
}

// Catches: a node that does not start because its launcher allows it fewer files than it requests.
TEST(FileLimit, IsWhatIsAllowed) {
  pid_t pid = fork();
  if (pid == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);  // must not raise it
    struct rlimit few = {100, 5000}, now = {};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(2);
    raiseFileLimit();
    getrlimit(RLIMIT_NOFILE, &now);
    _exit(now.rlim_cur == 5000 && now.rlim_max == 5000 ? 0 : 3);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(0, status);
}

// Catches: state that users other than root may list.
TEST(SystemDirectory, Modes) {
  Folder folder;
  setupSystemDirectory(folder.path);
  struct stat s;
  ASSERT_EQ(0, stat(kj::str(folder.path, "/system/state").cStr(), &s));
  EXPECT_EQ(0700u, s.st_mode & 07777);
}

// Catches: a domain appended to the name without a dot; an empty name that becomes an empty alias;
// an entry that begins another line.
TEST(EtcFiles, Contents) {
  EXPECT_THAT(hostsFile("m1", "cluster.local").cStr(),
              HasSubstr("127.0.1.1 m1.cluster.local m1\n"));
  EXPECT_THAT(hostsFile("m1", "").cStr(), HasSubstr("127.0.1.1 m1\n"));
  EXPECT_THAT(hostsFile("", "").cStr(), HasSubstr("127.0.1.1 localhost\n"));
  auto line = [](kj::StringPtr address, kj::StringPtr name) {
    HostLine result{kj::str(address), {}};
    result.names.add(kj::str(name));
    return result;
  };
  auto more = kj::arr(line("10.0.0.9", "nas"), line("10.0.0.9", "a\n1.2.3.4 evil"), line("", "x"));
  EXPECT_EQ(
      "127.0.0.1 localhost\n10.5.0.2 m1.x m1\n::1 localhost ip6-localhost ip6-loopback\n"
      "ff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n10.0.0.9 nas\n",
      hostsFile("m1", "x", "10.5.0.2", more));
}

// Catches: a file that daemons without root's rights cannot read.
TEST(EtcFiles, AreReadableByAll) {
  Folder folder;
  setupSystemDirectory(folder.path);
  writeFirstHostsFile(folder.path, "m1");
  EXPECT_EQ(hostsFile("m1", ""), readFile(kj::str(folder.path, "/system/etc/hosts")));
  writeEtcFile(folder.path, "hosts", "x\n");
  writeFirstHostsFile(folder.path, "m1");  // by a restarted brain
  auto path = kj::str(folder.path, "/system/etc/hosts");
  EXPECT_EQ("x\n", readFile(path));
  struct stat s;
  ASSERT_EQ(0, stat(path.cStr(), &s));
  EXPECT_EQ(0644u, s.st_mode & 07777);
}

}  // namespace
}  // namespace talos::machined
