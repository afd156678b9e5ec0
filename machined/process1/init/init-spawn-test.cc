#include "machined/process1/init/init-spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace talos::process1 {
namespace {

struct SpawnTest : testing::Test {
  std::string folder;
  int fd = -1;
  SpawnTest() {
    char name[] = "/tmp/init-spawn-XXXXXX";
    folder = mkdtemp(name);
    fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  ~SpawnTest() override {
    close(fd);
    unlink((folder + "/memory.max").c_str());
    rmdir(folder.c_str());
  }
  // Makes the file that the kernel provides, in which each write replaces the value.
  void makeFile() {
    close(open((folder + "/memory.max").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  }
  std::string content() {
    char text[64] = {};
    int file = open((folder + "/memory.max").c_str(), O_RDONLY | O_CLOEXEC);
    ssize_t size = read(file, text, sizeof(text) - 1);
    close(file);
    return std::string(text, size < 0 ? 0 : static_cast<size_t>(size));
  }
};

// Catches: a child without its limit, or with the limit of an earlier child; a node without the
// controller on which nothing starts.
TEST_F(SpawnTest, LimitsMemory) {
  EXPECT_EQ(0, limitMemory(fd, 64 << 20));
  EXPECT_EQ("", content()) << "no controller, and no file of ours";
  makeFile();
  EXPECT_EQ(0, limitMemory(fd, 64 << 20));
  EXPECT_EQ("67108864", content());
  makeFile();
  EXPECT_EQ(0, limitMemory(fd, 0));
  EXPECT_EQ("max", content());
  mkdir((folder + "/x").c_str(), 0755);
  unlink((folder + "/memory.max").c_str());
  rename((folder + "/x").c_str(), (folder + "/memory.max").c_str());
  EXPECT_EQ(EISDIR, limitMemory(fd, 1));
  rmdir((folder + "/memory.max").c_str());
}

}  // namespace
}  // namespace talos::process1
