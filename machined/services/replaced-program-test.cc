#include "machined/services/replaced-program.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace talos::machined {
namespace {

struct ReplacedProgram : public testing::Test {
  std::string folder;
  ReplacedProgram() {
    char name[] = "/tmp/talos-replaced-XXXXXX";
    folder = mkdtemp(name);
    chmod(folder.c_str(), 0755);
  }
  ~ReplacedProgram() override { std::filesystem::remove_all(folder); }
  void put(mode_t mode) {
    std::ofstream(folder + "/networkd") << "x";
    chmod((folder + "/networkd").c_str(), mode);
  }
  bool hasProgram() { return debugOrder("networkd", folder.c_str()).program != nullptr; }
};

// Catches: a program of another user than root that gets a daemon's rights.
TEST_F(ReplacedProgram, IsRootsAlone) {
  EXPECT_FALSE(hasProgram());
  put(0755);
  EXPECT_TRUE(hasProgram());
  put(0775);
  EXPECT_FALSE(hasProgram());
  put(0757);
  EXPECT_FALSE(hasProgram());
  put(0700);  // the daemon runs as another user
  EXPECT_FALSE(hasProgram());
  put(0755);
  chmod(folder.c_str(), 0777);
  EXPECT_FALSE(hasProgram());
}

// Catches: a service whose start another user than root can stop.
TEST_F(ReplacedProgram, StopsFirstWhenRootSaysSo) {
  auto stops = [&] { return debugOrder("networkd", folder.c_str()).stop; };
  EXPECT_FALSE(stops());
  std::ofstream(folder + "/networkd.stop") << "";
  chmod((folder + "/networkd.stop").c_str(), 0644);
  EXPECT_TRUE(stops());
  EXPECT_FALSE(hasProgram()) << "its own program";
  chmod((folder + "/networkd.stop").c_str(), 0666);
  EXPECT_FALSE(stops());
}

TEST_F(ReplacedProgram, IsNoLink) {
  std::filesystem::create_symlink("/bin/true", folder + "/networkd");
  EXPECT_FALSE(hasProgram());
  std::filesystem::remove(folder + "/networkd");
  put(0755);
  EXPECT_TRUE(hasProgram());
  auto link = folder + "-link";
  std::filesystem::create_directory_symlink(folder, link);
  EXPECT_TRUE(debugOrder("networkd", link.c_str()).program == nullptr);
  std::filesystem::remove(link);
}

TEST_F(ReplacedProgram, IsThisUsers) {
  put(0755);
  ASSERT_EQ(chown((folder + "/networkd").c_str(), 1, 1), 0) << "needs root";
  EXPECT_FALSE(hasProgram());
}

// Catches: a rule set that still names the image's program, so that the other program cannot be
// read.
TEST(WithProgram, StandsWhereverTheOwnOneIsNamed) {
  auto argv = kj::arr(kj::str("/usr/libexec/talos/confine"), kj::str("--uid=52"),
                      kj::str("--landlock-read=/usr/bin/networkd"),
                      kj::str("--landlock-read=/etc/usr/bin/networkd.conf"),
                      kj::str("--landlock-read=/etc/usr/bin/networkd"), kj::str("--"),
                      kj::str("/usr/bin/networkd"), kj::str("networkd"));
  auto changed = withProgram(argv, "/usr/bin/networkd", "/run/x/networkd");
  EXPECT_EQ(
      kj::strArray(changed, " "),
      "/usr/libexec/talos/confine --uid=52 --landlock-read=/run/x/networkd "
      "--landlock-read=/etc/usr/bin/networkd.conf --landlock-read=/etc/usr/bin/networkd -- /run/x/networkd networkd"_kj);
}

}  // namespace
}  // namespace talos::machined
