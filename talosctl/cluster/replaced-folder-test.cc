#include "talosctl/cluster/replaced-folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "common/base/file.h"
#include "common/base/node-layout.h"

namespace talos::talosctl {
namespace {

namespace fs = std::filesystem;

struct ReplacedFolder : public testing::Test {
  fs::path top, root, host;
  ReplacedFolder() {
    char name[] = "/tmp/talos-folder-XXXXXX";
    top = mkdtemp(name);
    root = top / "node", host = top / "host";
    fs::create_directories(root / "run");
    fs::create_directories(host);
  }
  ~ReplacedFolder() override { fs::remove_all(top); }
  fs::path folder() const { return root / fs::path(kReplacedFolder.cStr()).relative_path(); }
  kj::AutoCloseFd open() { return openReplacedFolder(root.c_str()); }
};

TEST_F(ReplacedFolder, IsMadeAndHoldsThePrograms) {
  // The daemon runs as another user, with any default permissions.
  auto usual = umask(077);
  auto fd = open();
  putProgram(fd, "networkd", "one"_kj.asArray());
  umask(usual);
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(folder() / "networkd").permissions(), fs::perms(0755));
  putProgram(fd, "networkd", "other"_kj.asArray());
  EXPECT_EQ(readFile((folder() / "networkd").c_str()), "other"_kj);
  EXPECT_FALSE(fs::exists(folder() / "networkd.new"));
  EXPECT_TRUE(takeProgram(open(), "networkd"));
  EXPECT_FALSE(takeProgram(fd, "networkd"));
}

// Catches: a node's root that makes the host's root write, or remove, a file of the host.
TEST_F(ReplacedFolder, NoLinkOfTheNodeLeadsToTheHost) {
  fs::create_directory_symlink(host, folder());
  EXPECT_ANY_THROW(open());
  fs::remove(folder());
  fs::remove(root / "run");
  fs::create_directory_symlink(host, root / "run");
  EXPECT_ANY_THROW(open());
  EXPECT_TRUE(fs::is_empty(host));
  fs::remove(root / "run");
  fs::create_directory(root / "run");
  auto fd = open();
  fs::create_symlink(host / "networkd.new", folder() / "networkd.new");
  fs::create_symlink(host / "networkd", folder() / "networkd");
  putProgram(fd, "networkd", "x"_kj.asArray());
  EXPECT_TRUE(fs::is_empty(host));
  EXPECT_FALSE(fs::is_symlink(folder() / "networkd"));
}

TEST_F(ReplacedFolder, MustBeRootsAlone) {
  open();
  chmod(folder().c_str(), 0777);
  EXPECT_ANY_THROW(open());
}

}  // namespace
}  // namespace talos::talosctl
