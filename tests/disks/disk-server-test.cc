#include "tests/disks/disk-server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos::disk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr double kSoon = 30;

// A client of one disk, outside of any event loop.
class Client {
 public:
  Client(const std::string& socket, const std::string& file)
      : fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    socket.copy(address.sun_path, sizeof address.sun_path - 1);
    KJ_SYSCALL(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
    take(18);
    std::string go = number(1, 4) + "IHAVEOPT" + number(7, 4) + number(6 + file.size(), 4) +
                     number(file.size(), 4) + file + number(0, 2);
    put(go);
    auto reply = take(20);
    accepted = reply.substr(12, 4) == number(3, 4);
    if (accepted) take(12 + 34 + 20);
  }
  bool accepted;

  // Sends it; no answer is awaited.
  void request(uint16_t command, uint64_t offset, uint32_t length, const std::string& payload) {
    put(number(0x25609513, 4) + number(0, 2) + number(command, 2) + number(7, 8) +
        number(offset, 8) + number(length, 4) + payload);
  }
  // Writes a sector and returns the error.
  uint32_t write(uint64_t offset, char letter) {
    request(1, offset, kSector, std::string(kSector, letter));
    return answer();
  }
  uint32_t flush() {
    request(3, 0, 0, "");
    return answer();
  }
  void kill() { fd = nullptr; }

 private:
  kj::AutoCloseFd fd;

  static std::string number(uint64_t value, int size) {
    std::string bytes;
    while (size-- > 0) bytes += static_cast<char>(value >> (8 * size));
    return bytes;
  }
  void put(const std::string& bytes) {
    KJ_REQUIRE(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size()));
  }
  std::string take(size_t size) {
    std::string bytes(size, '\0');
    KJ_REQUIRE(recv(fd, bytes.data(), size, MSG_WAITALL) == ssize_t(size));
    return bytes;
  }
  uint32_t answer() { return static_cast<unsigned char>(take(16)[7]); }
};

class DiskServers : public ::testing::Test {
 protected:
  kj::String folder;
  kj::Maybe<DiskServer> held;
  DiskServer& server;

  DiskServers() : folder(make()), server(held.emplace(std::string(folder.cStr()) + "/disks.sock")) {
    for (auto name : {"a-1.disk", "a-1.state", "b-1.disk"}) {
      std::ofstream(file(name), std::ios::binary) << std::string(16 * kSector, '.');
    }
  }
  ~DiskServers() noexcept override {
    held = nullptr;
    removeTree(folder);
  }
  std::string file(const std::string& name) { return std::string(folder.cStr()) + "/" + name; }
  Client client(const std::string& name) { return Client(server.socket(), file(name)); }
  // The first letter of each of the first sectors.
  std::string sectors(const std::string& name, size_t count) {
    std::ifstream in(file(name), std::ios::binary);
    std::stringstream all;
    all << in.rdbuf();
    std::string letters;
    for (size_t i = 0; i < count; ++i) letters += all.str()[i * kSector];
    return letters;
  }
  // Returns the files of the folder that this process has open.
  std::vector<std::string> open() {
    std::vector<std::string> files;
    for (auto& number : namesIn("/proc/self/fd")) {
      char target[PATH_MAX];
      auto length = readlink(kj::str("/proc/self/fd/", number).cStr(), target, sizeof target);
      if (length <= 0) continue;
      std::string path(target, static_cast<size_t>(length));
      if (path.starts_with(folder.cStr())) files.push_back(path);
    }
    return files;
  }

 private:
  static kj::String make() {
    char path[] = "/tmp/disk-server-test-XXXXXX";
    return kj::str(mkdtemp(path));
  }
};

// Catches: a killed machine that has lost nothing, or flushed writes, or only the writes of one
// disk; writes that are lost later than reported.
TEST_F(DiskServers, AKilledMachineLosesTheUnflushedOfAllItsDisks) {
  auto disk = client("a-1.disk"), state = client("a-1.state");
  EXPECT_EQ(disk.write(0, 'x'), 0u);
  EXPECT_EQ(disk.flush(), 0u);
  EXPECT_EQ(disk.write(kSector, 'x'), 0u);
  EXPECT_EQ(state.write(0, 'x'), 0u);
  EXPECT_EQ(sectors("a-1.disk", 2) + sectors("a-1.state", 1), "xxx");
  disk.kill();
  EXPECT_EQ(sectors("a-1.state", 1), "x") << "the machine has a disk yet";
  state.kill();
  server.waitUntilOff("a-1");
  EXPECT_EQ(sectors("a-1.disk", 2) + sectors("a-1.state", 1), "x..");
  server.waitUntilOff("a-1");  // returns at once
}

// Catches: a machine that is started right after its end and counts as the previous run: its writes
// are undone with those of that run.
TEST_F(DiskServers, AMachineThatComesBackAtOnceHasItsOwnRun) {
  auto before = client("a-1.disk");
  EXPECT_EQ(before.write(0, 'x'), 0u);
  auto after = client("a-1.disk");
  EXPECT_EQ(sectors("a-1.disk", 1), ".");
  EXPECT_EQ(after.write(0, 'y'), 0u);
  EXPECT_EQ(after.flush(), 0u);
  before.kill();
  EXPECT_EQ(server.cut("a-1", 0, 0, kSoon).unflushed, 0u);
  EXPECT_EQ(sectors("a-1.disk", 1), "y");
}

// Catches: a cut of another machine, a cut that does not wait for its write, or waits longer.
TEST_F(DiskServers, AMachineIsCutAtItsWrite) {
  auto disk = client("a-1.disk"), other = client("b-1.disk");
  std::thread writing([&] {
    // Whenever the cut is awaited: some writes come before.
    for (unsigned i = 0; i < 4; ++i) {
      EXPECT_EQ(other.write(0, 'o'), 0u);
      usleep(50'000);
    }
    disk.request(1, kSector, kSector, std::string(kSector, 'x'));
  });
  auto cut = server.cut("a-1", 1, 0, kSoon);
  writing.join();
  EXPECT_EQ(cut.unflushed, 1u);
  EXPECT_EQ(sectors("a-1.disk", 2), "..");
  EXPECT_EQ(other.flush(), 0u);
  auto failure = kj::runCatchingExceptions([&] { server.cut("b-1", 1, 0, 0.01); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), HasSubstr("did not reach write 1"));
  EXPECT_EQ(other.write(0, 'o'), 0u);
  failure = kj::runCatchingExceptions([&] { server.cut("none", 1, 0, 0.01); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)), "none is off");
}

// Catches: a recording whose progress, or whose progress at its end, cannot be read.
TEST_F(DiskServers, ARecordingEndsWithTheRun) {
  auto disk = client("a-1.disk");
  auto log = file("log");
  server.record("a-1", log, 1 << 20);
  EXPECT_EQ(disk.write(0, 'x'), 0u);
  EXPECT_EQ(disk.flush(), 0u);
  EXPECT_EQ(server.recording(log).events, 2u);
  EXPECT_TRUE(server.recording(log).running);
  EXPECT_THROW(server.record("a-1", file("second"), 1 << 20), kj::Exception);
  disk.kill();
  server.waitUntilOff("a-1");
  EXPECT_EQ(server.recording(log).writes, 1u);
  EXPECT_FALSE(server.recording(log).running);
  EXPECT_EQ(server.recording(log).problem, "");
}

// Catches: a recorded run that keeps the disks open, so that `talosctl cluster destroy` refuses to
// remove them.
TEST_F(DiskServers, ARecordedMachineThatHasEndedHasNoOpenDisk) {
  auto disk = client("a-1.disk"), state = client("a-1.state");
  server.record("a-1", file("log"), 1 << 20);
  EXPECT_THAT(open(), UnorderedElementsAre(file("a-1.disk"), file("a-1.state"), file("log")));
  disk.kill();
  state.kill();
  server.waitUntilOff("a-1");
  EXPECT_THAT(open(), ElementsAre(file("log")));
  EXPECT_EQ(server.recording(file("log")).problem, "");
}

// Catches: a machine that is said to be off because its QEMU has not opened the disks yet.
TEST_F(DiskServers, AMachineThatWasStartedJustNowIsWaitedFor) {
  kj::Maybe<Client> disk;
  std::thread starting([&] {
    usleep(100'000);
    disk.emplace(server.socket(), file("a-1.disk"));
  });
  server.failWritesFrom("a-1", 2 * kSector);
  starting.join();
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk).write(2 * kSector, 'x'), 5u);
}

// Catches: writes that fail for good, or on the other machine; a file that is no disk served.
TEST_F(DiskServers, WritesFailBehindAPlace) {
  auto disk = client("a-1.disk"), other = client("b-1.disk");
  server.failWritesFrom("a-1", 2 * kSector);
  EXPECT_EQ(disk.write(kSector, 'x'), 0u);
  EXPECT_EQ(disk.write(2 * kSector, 'x'), 5u);
  EXPECT_EQ(other.write(2 * kSector, 'x'), 0u);
  server.failWritesFrom("a-1", UINT64_MAX);
  EXPECT_EQ(disk.write(2 * kSector, 'x'), 0u);
  EXPECT_FALSE(client("none.disk").accepted);
}

}  // namespace
}  // namespace talos::disk
