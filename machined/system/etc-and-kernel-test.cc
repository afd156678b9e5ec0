#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "machined/system/etc-files.h"
#include "machined/system/kernel-parameters.h"

namespace talos::machined {
namespace {

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

// Catches: a wrong value that passes as present, a missing one that is not named.
TEST(Kspp, NamesWhatIsMissingOrWrong) {
  EXPECT_EQ(0u, missingKsppParameters(parse("slab_nomerge pti=on")).size());
  auto missing = missingKsppParameters(parse("pti=off"));
  ASSERT_EQ(2u, missing.size());
  EXPECT_EQ("kernel parameter slab_nomerge is missing", missing[0]);
  EXPECT_EQ("kernel parameter pti is \"off\", must be pti=on", missing[1]);
}

// Catches: a key that is written to the wrong place, an absent one that ends the others.
TEST(Sysctls, AreWrittenWhereTheyBelong) {
  Folder folder;
  makeDirectories(kj::str(folder.path, "/net/ipv4"));
  auto file = kj::str(folder.path, "/net/ipv4/ip_forward");
  writeFileAtomically(file, kj::StringPtr("0").asArray(), 0600);
  Sysctl list[] = {{"net.bridge.x", "1"}, {"net.ipv4.ip_forward", "1"}};
  auto absent = writeSysctls(folder.path, list);
  ASSERT_EQ(1u, absent.size());
  EXPECT_EQ("net.bridge.x", absent[0]);
  EXPECT_EQ("1", readFile(file));
}

// Catches: a refused setting that nobody hears of.
TEST(Sysctls, RefusedOnesAreNamed) {
  Folder folder;
  makeDirectories(kj::str(folder.path, "/a"));
  Sysctl list[] = {{"a", "1"}};
  try {
    writeSysctls(folder.path, list);
    FAIL();
  } catch (const kj::Exception& e) {
    EXPECT_THAT(e.getDescription().cStr(), HasSubstr("a=1: Is a directory"));
  }
}

// Catches: bridge settings asked of a container.
TEST(Sysctls, ContainersLeaveBridgesAlone) {
  for (auto& s : requiredSysctls(true)) EXPECT_FALSE(s.key.startsWith("net.bridge."));
  EXPECT_EQ(requiredSysctls(false).size(), requiredSysctls(true).size() + 2);
}

// Catches: state that others than root may list.
TEST(SystemDirectory, Modes) {
  Folder folder;
  setupSystemDirectory(folder.path);
  struct stat s;
  ASSERT_EQ(0, stat(kj::str(folder.path, "/system/state").cStr(), &s));
  EXPECT_EQ(0700u, s.st_mode & 07777);
}

// Catches: a domain glued to the name, an empty name that becomes an empty alias, an entry that
// makes a line of its own.
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
  writeFirstHostsFile(folder.path, "m1");  // by a brain that was started again
  auto path = kj::str(folder.path, "/system/etc/hosts");
  EXPECT_EQ("x\n", readFile(path));
  struct stat s;
  ASSERT_EQ(0, stat(path.cStr(), &s));
  EXPECT_EQ(0644u, s.st_mode & 07777);
}

}  // namespace
}  // namespace talos::machined
