// The monitor of QEMU (QMP): buttons, interrupts and power of a machine, from outside.
#pragma once

#include <kj/debug.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "tests/harness/process.h"

namespace talos::vm {

// QEMU's control socket (QMP): a line of JSON each way.
class QemuControl {
 public:
  explicit QemuControl(const std::string& path) {
    struct sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    KJ_REQUIRE(path.size() < sizeof(address.sun_path), path.c_str());
    memcpy(address.sun_path, path.data(), path.size());
    KJ_SYSCALL(fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    KJ_SYSCALL(connect(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)));
    waitFor("\"QMP\"");
    command("qmp_capabilities");
  }
  ~QemuControl() { close(fd); }
  QemuControl(const QemuControl&) = delete;

  // `arguments`: an object of JSON. Returns the answer as it came, perhaps with events.
  std::string command(const std::string& name, const std::string& arguments = "{}") {
    auto line = "{\"execute\": \"" + name + "\", \"arguments\": " + arguments + "}\n";
    KJ_REQUIRE(write(fd, line.data(), line.size()) == ssize_t(line.size()));
    return waitFor("\"return\"");
  }
  // Waits for the next event with this name; returns false if none came within `seconds`.
  bool event(const std::string& name, double seconds) {
    auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (std::string seen; !harness::contains(seen, "\"" + name + "\"");) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      struct pollfd readable = {fd, POLLIN, 0};
      if (left.count() <= 0 || poll(&readable, 1, int(left.count())) != 1) return false;
      receive(seen);
    }
    return true;
  }

 private:
  int fd;

  std::string waitFor(const std::string& word) {
    std::string seen;
    while (!harness::contains(seen, word)) {
      struct pollfd readable = {fd, POLLIN, 0};
      KJ_REQUIRE(poll(&readable, 1, 10'000) == 1, "QEMU did not answer within 10 s", word.c_str(),
                 seen.c_str());
      receive(seen);
    }
    return seen;
  }
  void receive(std::string& seen) {
    char buffer[4096];
    ssize_t size = read(fd, buffer, sizeof(buffer));
    KJ_REQUIRE(size > 0, "QEMU closed its control socket", seen.c_str());
    seen.append(buffer, static_cast<size_t>(size));
  }
};

}  // namespace talos::vm
