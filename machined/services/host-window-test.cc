#include "machined/services/host-window.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/program-window.h"
#include "common/base/sha256.h"
#include "machined/services/replaced-program.h"

namespace talos::machined {
namespace {

namespace fs = std::filesystem;
using program_window::Header;
using program_window::Order;

struct HostWindowTest : public testing::Test {
  fs::path root;
  HostWindowTest() {
    char name[] = "/tmp/host-window-XXXXXX";
    root = mkdtemp(name);
  }
  ~HostWindowTest() override { fs::remove_all(root); }

  void addDevice(const std::string& slot, const std::string& vendor, const std::string& device,
                 uint64_t bytes) {
    auto folder = root / "pci" / slot;
    fs::create_directories(folder);
    std::ofstream(folder / "vendor") << vendor << "\n";
    std::ofstream(folder / "device") << device << "\n";
    std::ofstream(folder / "resource2") << "";
    fs::resize_file(folder / "resource2", bytes);
  }
  bool found() { return HostWindow::find((root / "pci").c_str()) != nullptr; }

  void write(Header header, const std::string& program) {
    int fd = open((root / "pci/0/resource2").c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(ssize_t(program.size()), pwrite(fd, program.data(), program.size(), 4096));
    ASSERT_EQ(ssize_t(sizeof header), pwrite(fd, &header, sizeof header, 0));
    close(fd);
  }
  static Header order(Order order, const std::string& service, const std::string& program) {
    Header header = {};
    memcpy(header.magic, program_window::kMagic, sizeof header.magic);
    strncpy(header.service, service.c_str(), sizeof header.service);
    header.order = order;
    header.bytes = program.size();
    Sha256 digest;
    digest.add(kj::arrayPtr(reinterpret_cast<const kj::byte*>(program.data()), program.size()));
    memcpy(header.digest, digest.finish().begin(), sizeof header.digest);
    return header;
  }
  // Returns the program that a start of the service would run.
  std::string follow(const char* id) {
    auto folder = (root / "replaced").string();
    KJ_ASSERT_NONNULL(HostWindow::find((root / "pci").c_str())).follow(id, folder.c_str());
    auto found = debugOrder(id, folder.c_str());
    KJ_IF_MAYBE (path, found.program) {
      std::ifstream file(path->cStr());
      return std::string(std::istreambuf_iterator<char>(file), {});
    }
    return "its own";
  }
};

// Catches: a program that is taken from a device of anything but a local cluster.
TEST_F(HostWindowTest, IsThatOfOneDeviceOnly) {
  EXPECT_FALSE(found()) << "no PCI";
  addDevice("1", "0x1af4", "0x1000", program_window::kBytes);
  addDevice("2", "0x8086", "0x1110", program_window::kBytes);
  addDevice("3", "0x1af4", "0x1110", 4096);
  EXPECT_FALSE(found());
  addDevice("4", "0x1af4", "0x1110", program_window::kBytes);
  EXPECT_TRUE(found());
}

// Catches: a service that runs another service's program; a program that stays when it should be
// removed, or is lost at a start without an order.
TEST_F(HostWindowTest, FollowsTheOrdersOfItsService) {
  addDevice("0", "0x1af4", "0x1110", program_window::kBytes);
  EXPECT_EQ("its own", follow("networkd"));
  std::string program(3 << 20, 'x');  // several pieces long
  program += "end";
  write(order(Order::kReplace, "networkd", program), program);
  EXPECT_EQ("its own", follow("apid"));
  EXPECT_EQ(program, follow("networkd"));
  write(Header(), "");
  EXPECT_EQ(program, follow("networkd")) << "a start after the command";
  write(order(Order::kUndo, "apid", ""), "");
  EXPECT_EQ(program, follow("networkd"));
  write(order(Order::kUndo, "networkd", ""), "");
  EXPECT_EQ("its own", follow("networkd"));
}

// Catches: half a program that runs with a daemon's rights; a read past the end of the window.
TEST_F(HostWindowTest, ATornOrderIsNone) {
  addDevice("0", "0x1af4", "0x1110", program_window::kBytes);
  auto whole = order(Order::kReplace, "networkd", "program");
  write(whole, "progra?");
  EXPECT_EQ("its own", follow("networkd"));
  auto wrong = whole;
  wrong.magic[0] = 'T';
  write(wrong, "program");
  EXPECT_EQ("its own", follow("networkd"));
  wrong = whole;
  wrong.bytes = ~uint64_t(0);
  write(wrong, "program");
  EXPECT_EQ("its own", follow("networkd"));
  wrong = whole;
  memset(wrong.service, 'n', sizeof wrong.service);
  write(wrong, "program");
  EXPECT_EQ("its own", follow("networkd"));
  EXPECT_FALSE(fs::exists(root / "replaced/networkd.new"));
  write(whole, "program");
  EXPECT_EQ("program", follow("networkd"));
}

}  // namespace
}  // namespace talos::machined
