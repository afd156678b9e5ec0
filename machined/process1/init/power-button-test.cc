#include "machined/process1/init/power-button.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "machined/process1/init/init-harness.h"

namespace talos::process1 {
namespace {

// Returns the event of a power button as the kernel sends it: drivers/acpi/event.c, as observed in
// a guest.
std::string powerButtonEvent() {
  std::string event(68, '\0');
  event.replace(0, 1, 1, 68);                 // nlmsg_len
  event.replace(4, 1, 1, 0x1a);               // nlmsg_type: the number assigned to the family
  event.replace(8, 1, 1, 2);                  // nlmsg_seq
  event.replace(16, 2, std::string("\1\1"));  // command, version
  event.replace(20, 1, 1, 48);                // nla_len
  event.replace(22, 1, 1, 1);                 // nla_type
  event.replace(24, 15, "button/power/PB");   // the driver chooses the rest
  event.replace(44, 11, "LNXPWRBN:00");
  event.replace(60, 1, 1, '\x80');
  event.replace(64, 1, 1, 1);
  return event;
}

bool isIt(const std::string& datagram, uint32_t sender = 0) {
  return isPowerButton(datagram.data(), datagram.size(), sender);
}

std::string with(size_t place, char byte) {
  auto event = powerButtonEvent();
  event[place] = byte;
  return event;
}

// Catches: a node that shuts down because the lid was closed, the power plugged in, or by a process
// with CAP_NET_ADMIN; bytes that are read after the end of a datagram.
TEST(PowerButton, OtherEventsAreNoPowerButton) {
  auto event = powerButtonEvent();
  EXPECT_TRUE(isIt(event));
  EXPECT_TRUE(isIt(with(60, 0))) << "the number of the event is the driver's affair";
  EXPECT_FALSE(isIt(event, 4711)) << "from another process";
  for (size_t size = 0; size < event.size(); ++size) EXPECT_FALSE(isIt(event.substr(0, size)));
  EXPECT_FALSE(isIt(event + '\0'));
  struct Row {
    size_t place;
    char byte;
    const char* what;
  } rows[] = {
      {0, 64, "the length of the message"}, {4, 2, "an error's type, which repeats a request"},
      {16, 2, "another command"},           {20, 44, "the length of the attribute"},
      {22, 2, "another attribute"},         {31, 's', "button/sower"},
      {24, 'a', "an ac adapter"},           {35, 0, "button/powe"},
  };
  for (auto& row : rows) EXPECT_FALSE(isIt(with(row.place, row.byte))) << row.what;
}

struct Button {
  int kernel, ours;
  Button() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0) abort();
    kernel = ends[0];
    ours = ends[1];
  }
  ~Button() {
    if (kernel >= 0) close(kernel);
    close(ours);
  }
  void say(const std::string& datagram) const {
    ASSERT_EQ(ssize_t(datagram.size()), ::send(kernel, datagram.data(), datagram.size(), 0));
  }
  void holdIn(int brain) const {
    process1::send(brain, RequestKind::kHold, 1, kPowerButton, 0, 0, {ours});
    EXPECT_EQ(0, receive(brain).report.code);
  }
};

// Catches: a button without effect; an earlier press, or another event, that is taken for it; an
// event that the next brain reads instead of process 1.
TEST(PowerButton, PowersOff) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  Button button;
  button.holdIn(brain.socket);
  button.say("noise");
  button.say(with(24, 'B'));
  send(brain.socket, RequestKind::kDrop, 2, "none");
  EXPECT_EQ(2u, receive(brain.socket).report.id) << "there was no wish before";
  harness.killNow(brain.pid);
  auto next = harness.next();
  inventory(next.socket);
  button.say(powerButtonEvent());
  auto action = receive(next.socket);
  EXPECT_EQ(ReportKind::kPowerAction, action.report.kind);
  EXPECT_EQ(static_cast<int>(PowerAction::kPowerOff), action.report.code);
}

// Catches: a button that needs a brain.
TEST(PowerButton, WorksWithoutTheBrain) {
  Harness::Options options;
  options.tickMs = 20;
  options.missedBeats = options.missedAtStart = 1000;
  options.actionBeginsWithin = 15;
  options.termGraceMs = 100;
  Harness harness(options);
  auto brain = harness.next();
  inventory(brain.socket);
  Button button;
  button.holdIn(brain.socket);
  ASSERT_EQ(0, kill(brain.pid, SIGSTOP));
  button.say(powerButtonEvent());
  harness.waitForConsole("did not begin to shut down within 0 s; going on without it");
  int status = harness.waitForEnd();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << "powered off";
}

// Catches: a process with CAP_NET_ADMIN, such as networkd, that can switch the node off.
TEST(PowerButton, OnlyTheKernelPressesIt) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  int held = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
  int other = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
  struct sockaddr_nl to = {}, from = {};
  to.nl_family = from.nl_family = AF_NETLINK;
  ASSERT_EQ(0, bind(held, reinterpret_cast<struct sockaddr*>(&to), sizeof(to)));
  ASSERT_EQ(0, bind(other, reinterpret_cast<struct sockaddr*>(&from), sizeof(from)));
  socklen_t size = sizeof(to);
  ASSERT_EQ(0, getsockname(held, reinterpret_cast<struct sockaddr*>(&to), &size));
  send(brain.socket, RequestKind::kHold, 1, kPowerButton, 0, 0, {held});
  EXPECT_EQ(0, receive(brain.socket).report.code);
  auto event = powerButtonEvent();
  ASSERT_EQ(ssize_t(event.size()), sendto(other, event.data(), event.size(), 0,
                                          reinterpret_cast<struct sockaddr*>(&to), sizeof(to)));
  char left;
  for (int i = 0; i < 2; ++i) {  // earlier datagrams are read before the second reply
    send(brain.socket, RequestKind::kDrop, 2, "none");
    EXPECT_EQ(2u, receive(brain.socket).report.id) << "it was pressed";
  }
  EXPECT_EQ(-1, recv(held, &left, 1, MSG_DONTWAIT)) << "nobody has read it";
  close(held);
  close(other);
}

// Catches: process 1 that spins on a descriptor that cannot be read, or that still reads a
// descriptor which the brain has dropped.
TEST(PowerButton, ADescriptorThatIsNoneIsLetGo) {
  Harness harness;
  auto brain = harness.next();
  inventory(brain.socket);
  auto watched = harness.watchedDescriptors();
  int pipes[2];
  ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
  ASSERT_EQ(1, write(pipes[1], "x", 1));
  send(brain.socket, RequestKind::kHold, 1, kPowerButton, 0, 0, {pipes[0]});
  EXPECT_EQ(0, receive(brain.socket).report.code);
  harness.waitForConsole("cannot listen for the power button: Socket operation on non-socket");
  send(brain.socket, RequestKind::kDrop, 2, "none");
  EXPECT_EQ(2u, receive(brain.socket).report.id);
  EXPECT_EQ(watched, harness.watchedDescriptors());
  close(pipes[0]);
  close(pipes[1]);
  Button first, second;
  first.holdIn(brain.socket);
  second.holdIn(brain.socket);
  first.say(powerButtonEvent());
  send(brain.socket, RequestKind::kDrop, 2, kPowerButton);
  EXPECT_EQ(2u, receive(brain.socket).report.id);
  second.say(powerButtonEvent());
  send(brain.socket, RequestKind::kDrop, 3, "none");
  EXPECT_EQ(3u, receive(brain.socket).report.id) << "there was a wish";
  EXPECT_EQ(watched, harness.watchedDescriptors()) << "it spins, once something is to be read";
}

}  // namespace
}  // namespace talos::process1
