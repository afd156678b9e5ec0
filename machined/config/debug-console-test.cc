#include "machined/config/debug-console.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "machined/config/test-config-manager.h"

namespace talos::machined {
namespace {

struct DebugConsoleTest : ConfigManagerTest {
  ~DebugConsoleTest() noexcept override { unlink(path); }
  char path[32] = "/tmp/kmsg-XXXXXX";  // path of a file that replaces the kernel log
  kj::AutoCloseFd file{mkstemp(path)};

  static kj::String with(bool debug) { return kj::str("debug: ", debug, "\n", document("a")); }
  bool shown(const char* text) { return contains(readFile(path).cStr(), text); }
};

// Catches: services that are silent although the config has debug, or print although it has not;
// lines of machined that appear twice.
TEST_F(DebugConsoleTest, FollowsTheConfig) {
  booted(with(false));
  auto& b = brain();
  FakeProcess1 process1(machine);
  Logs logs(process1, io.unixEventPort);
  Console console(logs, clock);
  console.openKernelLog(path);
  DebugConsole debug(b.store, b.reader, logs, console);
  debug.follow("machined");
  auto write = [&](kj::StringPtr id, kj::StringPtr line) {
    logs.append(id, kj::str(line, "\n").asArray());
  };
  write("apid", "quiet");
  EXPECT_FALSE(shown("quiet"));
  apply(with(true), ApplyMode::NO_REBOOT).wait(io.waitScope);
  settle();
  write("apid", "loud");
  write("machined", "own");
  EXPECT_TRUE(shown("loud"));
  EXPECT_FALSE(shown("own"));
  apply(with(false), ApplyMode::NO_REBOOT).wait(io.waitScope);
  settle();
  write("apid", "again");
  EXPECT_FALSE(shown("again"));
}

// Catches: a machine that floods its console while it waits for its config.
TEST_F(DebugConsoleTest, IsSilentWithoutAConfig) {
  FakeProcess1 process1(machine);
  Logs logs(process1, io.unixEventPort);
  Console console(logs, clock);
  console.openKernelLog(path);
  Registry registry;
  Store store(registry, clock);
  MachineConfigReader reader;
  DebugConsole debug(store, reader, logs, console);
  debug.follow("machined");
  logs.append("apid", "early\n"_kj.asArray());
  EXPECT_FALSE(shown("early"));
}

}  // namespace
}  // namespace talos::machined
