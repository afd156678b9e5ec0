// Events and lines about the life of a machine.
#include "machined/boot/announcements.h"

#include <string>

#include "machined/config/debug-console.h"
#include "machined/config/test-config-manager.h"

namespace talos::machined {
namespace {

struct AnnouncementsTest : ConfigManagerTest {
  ~AnnouncementsTest() noexcept override {}
  FakeProcess1 process1{machine};
  Events events{clock, process1};
  Logs logs{process1, io.unixEventPort};
  Console console{logs, clock};
  Announcements announcements{events, console, logs};
  kj::Vector<kj::String> published;  // events
  std::string said;                  // lines of all logs, "id: line"

  AnnouncementsTest() {
    events.onEvent([this](rpc::Event::Reader event) {
      if (event.isConfig()) {
        published.add(kj::str("config ", event.getConfig().getRevertsInMs(), " ",
                              event.getConfig().getMessage()));
      } else if (event.isNetwork()) {
        published.add(kj::str(event.getNetwork().getLink(), " ", event.getNetwork().getMessage()));
      } else if (event.isService()) {
        published.add(kj::str("service ", event.getService().getService()));
      } else {
        published.add(kj::str("other"));
      }
    });
    logs.tee([this](kj::StringPtr id, kj::ArrayPtr<const char> lines) {
      said += std::string(id.cStr()) + ": " + std::string(lines.begin(), lines.size());
    });
  }
};

// Catches: a trial that does not announce its end.
TEST_F(AnnouncementsTest, ATrialSaysWhenItEnds) {
  announcements.trial("a config is on trial", 90 * kj::SECONDS);
  announcements.trial("it is over", nullptr);
  ASSERT_EQ(2u, published.size());
  EXPECT_TRUE(published[0].startsWith("config 90000 a config is on trial: "))
      << published[0].cStr();
  EXPECT_TRUE(contains(published[0].cStr(), "in 90 s"));
  EXPECT_EQ("config 0 it is over", published[1]);
  EXPECT_TRUE(contains(said, "machine config: it is over")) << said;
}

// Catches: an event without its line, or a line without its event.
TEST_F(AnnouncementsTest, HasALineAndAnEventForEach) {
  capnp::MallocMessageBuilder scratch;
  auto event = scratch.initRoot<rpc::ServiceStateEvent>();
  event.setService("apid");
  event.setState(rpc::ServiceState::RUNNING);
  event.setMessage("Started");
  announcements.service(event);
  announcements.networkRepaired("eth0", "address 10.0.0.2/24");
  announcements.time("the clock was set");
  ASSERT_EQ(2u, published.size());
  EXPECT_EQ("service apid", published[0]);
  EXPECT_TRUE(published[1].startsWith("eth0 ") && published[1].endsWith(": address 10.0.0.2/24"));
  EXPECT_TRUE(contains(said, "service[apid](Running): Started")) << said;
  EXPECT_TRUE(contains(said, "timed: ")) << said;
  EXPECT_TRUE(contains(said, "the clock was set")) << said;
}

}  // namespace
}  // namespace talos::machined
