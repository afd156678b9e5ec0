#include "talosctl/dashboard/log-tail.h"

#include <string>

#include "talosctl/cli/commandline.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl::dashboard {
namespace {

struct LogTailTest : public ClusterTest {
  ~LogTailTest() noexcept override {}
  FakeNode& fake = node("10.0.0.2");
  Parsed parsed = parse();
  SharedClient client{*parsed.call};

  LogTailTest() {
    for (auto line : {"one"_kj, "two"_kj}) fake.logLines.add(kj::str(line));
  }
  Parsed parse() {
    c.test.environment.upsert(kj::str("TALOSCONFIG"), c.configPath(), [](auto&, auto&&) {});
    const kj::StringPtr words[] = {"dashboard"_kj};
    return parseCommandLine(*c.deps, *c.root, words);
  }
  // Runs until nothing happens any more, including the pauses between attempts.
  void rest() {
    for (int i = 0; i < 3; ++i) {
      c.settle();
      c.clock.advanceTo(c.clock.now() + 6 * kj::SECONDS);
    }
    c.settle();
  }
  static std::string textOf(const LogTail& tail) { return kj::strArray(tail.lines(), "|").cStr(); }
};

// Catches: a pane that does not change any more after the endpoint's machine was switched off: its
// connection looks alive, and a stream sends no requests.
TEST_F(LogTailTest, GoesOnThroughTheConnectionThatReplacesASilentOne) {
  LogTail tail(client, "10.0.0.2", "apid");
  rest();
  EXPECT_EQ(textOf(tail), "one|two");
  fake.logLines.add(kj::str("three"));
  rest();
  EXPECT_EQ(textOf(tail), "one|two");
  client.renew();
  rest();
  EXPECT_EQ(textOf(tail), "one|two|(no node answers through this connection any more)|three");
  ASSERT_EQ(fake.logFrom.size(), 2u);
  EXPECT_EQ(fake.logFrom[1], 2u);
}

// Catches: positions of the previous boot, which the log of the new boot does not reach for a long
// time.
TEST_F(LogTailTest, StartsAgainWithTheNextBoot) {
  LogTail tail(client, "10.0.0.2", "apid");
  rest();
  fake.bootId = kj::str("boot-2");
  fake.logLines.clear();
  fake.logLines.add(kj::str("first of the second boot"));
  c.restart();
  rest();
  auto text = textOf(tail);
  EXPECT_NE(text.find("(the node was rebooted; its log starts again)|first of the second boot"),
            std::string::npos)
      << text;
  EXPECT_EQ(fake.logFrom.back(), 0u);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
