#include "tests/harness/registry.h"

#include <kj/debug.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace talos::harness {

Registry::Registry(const std::string& folder, const std::string& address,
                   const std::string& remote) {
  auto storage = folder + "/" + address;
  std::filesystem::create_directories(storage);
  auto config = storage + "/config.yml";
  std::ofstream(config) << "version: 0.1\nstorage: {filesystem: {rootdirectory: " << storage
                        << "/data}}\nhttp: {addr: '" << address << "'}\n"
                        << (remote.empty() ? "" : "proxy: {remoteurl: '" + remote + "'}\n");
  process =
      std::make_unique<Background>(std::vector<std::string>{"docker-registry", "serve", config});
  bool listens =
      process->waitFor([](const std::string& out,
                          const std::string& err) { return contains(out + err, "listening on"); },
                       30);
  KJ_REQUIRE(listens, "docker-registry does not listen", address.c_str(), process->err().c_str());
}

bool Registry::wasAsked(const std::string& part) {
  return process->waitFor(
      [&](const std::string& out, const std::string& err) { return contains(out + err, part); },
      10);
}

void RegistryHost::SetUp() {
  ASSERT_EQ(unshare(CLONE_NEWNET), 0) << "needs root";
  ASSERT_EQ(run({"ip", "link", "set", "lo", "up"}).status, 0);
  char name[] = "/tmp/talos-registry-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  folder = name;
}

void RegistryHost::TearDown() {
  std::filesystem::remove_all(folder);
}

}  // namespace talos::harness
