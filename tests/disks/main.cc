// disk-server SOCKET: the server of disks for scripts. It says "ready", then answers each line of
// its input with "ok" or "error: <what>", until the input ends:
//
//   record MACHINE FILE    record what this machine does to its disks
#include <iostream>
#include <sstream>

#include "common/base/error.h"
#include "tests/disks/disk-server.h"

namespace {

constexpr uint64_t kMostRecorded = 4ull << 30;

kj::String perform(talos::disk::DiskServer& server, const std::string& line) {
  std::istringstream words(line);
  std::string command, machine, file;
  words >> command >> machine >> file;
  if (command != "record" || file.empty()) return kj::str("error: use record MACHINE FILE");
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { server.record(machine, file, kMostRecorded); })) {
    return kj::str("error: ", talos::messageOf(*e));
  }
  return kj::str("ok");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: disk-server SOCKET\n";
    return 2;
  }
  talos::disk::DiskServer server(argv[1]);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << perform(server, line).cStr() << std::endl;
  }
  return 0;
}
