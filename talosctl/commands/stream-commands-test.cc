// Commands whose output is a stream: get --watch, events, logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Streams = ClusterTest;

// Catches a watch that an interrupt turns into a failure, and rows that are held back.
TEST_F(Streams, GetWatchesUntilInterrupted) {
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.2", "get", "svc", "-w"}, kj::mv(interrupt.promise));
  c.settle();
  EXPECT_EQ(out(),
            "NODE       *   NAMESPACE   TYPE      ID     VERSION   RUNNING   HEALTHY\n"
            "10.0.0.2   +   runtime     Service   apid   3         true      true\n"
            "10.0.0.2   -   runtime   Service   apid   3   true   true\n");
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
  EXPECT_EQ(err(), "interrupted\n");
}

// Catches: a row for each change on a terminal, or a deleted resource whose row disappears without
// a mark; a pipe would lack this change.
TEST_F(Streams, GetWatchesInPlaceOnATerminal) {
  c.test.console.terminal = true;
  c.test.environment.insert(kj::str("NO_COLOR"), kj::str("1"));
  auto run = c.start({"-n", "10.0.0.2", "get", "svc", "-w"});
  c.settle();
  auto table = [](kj::StringPtr change) {
    return kj::str(
        "\rNODE       *   NAMESPACE   TYPE      ID     VERSION   RUNNING   "
        "HEALTHY\x1b[K\n\r10.0.0.2   ",
        change, "   runtime     Service   apid   3         true      true\x1b[K\n\x1b[J");
  };
  EXPECT_EQ(out(), kj::str(table("+"), "\x1b[2A", table("-")).cStr());
}

// Catches: streams of structs without one of the forms, a failure that the stream lacks, several
// documents merged into one.
TEST_F(Streams, RecordsAreDocumentsOfYaml) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "ls", "/", "-o", "yaml"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("---\nnode: 10.0.0.2\n"), HasSubstr("relativeName: "),
                           HasSubstr("---\nnode: 10.0.0.3\nerror:\n    kind: Unavailable\n")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "usage", "/var", "-o", "yaml"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("---\nnode: 10.0.0.2\nname: /var/private\n"),
                           HasSubstr("---\nnode: 10.0.0.2\nname: /var\nsize: 4096\n")));
}

TEST_F(Streams, EventsAreShownAsTheyCome) {
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.2", "events", "--tail", "-1"}, kj::mv(interrupt.promise));
  c.settle();
  EXPECT_EQ(
      out(),
      "NODE       ID                     TIME                   EVENT                              "
      "SOURCE   MESSAGE\n"
      "10.0.0.2   dc4etspca8ssq00002cg   2021-03-06T03:06:40Z   talos/runtime/machine.PhaseEvent   "
      "etc      START\n");
  EXPECT_EQ(err(),
            "10.0.0.2: 7 events are missing: they were overwritten before they could be sent\n");
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
  auto again = kj::newPromiseAndFulfiller<void>();
  run = c.start({"-n", "10.0.0.2", "events", "--tail", "-1", "-o", "yaml"}, kj::mv(again.promise));
  c.settle();
  EXPECT_THAT(out(), StartsWith("---\nnode: 10.0.0.2\n"));
  again.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "events", "--tail", "3", "--since", "dc4etspca8ssq00002cg"}),
            1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "events", "--boot", "b1"}), 1);
  for (auto [flag, value] : {std::pair("--tail", "3"), std::pair("--duration", "2m"),
                             std::pair("--since", "dc4etspca8ssq00002cg")}) {
    auto again = kj::newPromiseAndFulfiller<void>();
    auto other = c.start({"-n", "10.0.0.2", "events", flag, value}, kj::mv(again.promise));
    c.settle();
    again.fulfiller->fulfill();
    EXPECT_EQ(c.finish(kj::mv(other)), 0);
  }
  EXPECT_EQ(kj::strArray(node("10.0.0.2").requestedEvents, ", "),
            "last -1, last -1, last 3, seconds 120, after dc4etspca8ssq00002cg"_kj);
}

TEST_F(Streams, LogsArePrefixedAndEscaped) {
  node("10.0.0.2").logLines.add(kj::str("one\ttwo"));
  node("10.0.0.2").logLines.add(kj::str("\x1b[31mred"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid"}), 0);
  EXPECT_EQ(out(), "10.0.0.2: one\ttwo\n10.0.0.2: \\x1b[31mred\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid", "-o", "json"}), 0);
  EXPECT_THAT(out(), StartsWith("{\"node\":\"10.0.0.2\",\"message\":\"one\\ttwo\"}\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid", "-o", "yaml"}), 0);
  EXPECT_EQ(out(),
            "---\nnode: 10.0.0.2\nmessage: \"one\\ttwo\"\n"
            "---\nnode: 10.0.0.2\nmessage: \"\\u001b[31mred\"\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "nobody"}), 1);
  EXPECT_EQ(err(), "10.0.0.2: its logs: apid, ../etcd\nERROR: 10.0.0.2: no log \"nobody\"\n");
}

// Catches: a text filter that is not passed on, so that all lines are shown.
TEST_F(Streams, LogsWithAText) {
  for (auto line : {"one", "two", "three"}) node("10.0.0.2").logLines.add(kj::str(line));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid", "--grep", "o"}), 0);
  EXPECT_EQ(out(), "10.0.0.2: one\n10.0.0.2: two\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "-p", "audit", "--grep", "a b", "--tail", "3"}), 0);
  EXPECT_EQ(out(), "10.0.0.2: audit of boot \"\", last 3 with a b\n");
}

// Catches: a time that is lost on its way to the node, or read by the clock of another machine; a
// mistake that is sent to a node.
TEST_F(Streams, LogsSinceATime) {
  // The clock of the test says 2021-03-06T03:06:40Z.
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid", "--since", "5m", "--grep", "x"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid", "--since", "2021-03-06T03:00:00.5Z"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "apid"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "dmesg", "--since", "1d", "--grep", "usb 1"}), 0);
  EXPECT_EQ(kj::strArray(node("10.0.0.2").requestedLines, ", "),
            "age 300000 with x, time 1614999600500000000, always, age 86400000 with usb 1"_kj);
  err();
  for (auto command : {"logs"_kj, "dmesg"_kj}) {
    auto mistaken = [&](kj::StringPtr since) {
      return command == "logs" ? c.run({"-n", "10.0.0.2", command, "apid", "--since", since})
                               : c.run({"-n", "10.0.0.2", command, "--since", since});
    };
    EXPECT_EQ(mistaken("5 apples"), 1);
    EXPECT_THAT(err(), HasSubstr("--since \"5 apples\" is not a time; use how long ago (45s"));
    EXPECT_EQ(mistaken("2021-03-07T00:00:00Z"), 1);
    EXPECT_THAT(err(), HasSubstr("is 2021-03-07T00:00:00Z, which is still to come"));
  }
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "-p", "apid", "--since", "5m"}), 1);
  EXPECT_THAT(err(), HasSubstr("use --grep"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "dmesg", "-f", "--tail", "--since", "5m"}), 1);
  EXPECT_EQ(node("10.0.0.2").requestedLines.size(), 4u);
}

// Catches: a request for an earlier boot that is sent as one for this boot.
TEST_F(Streams, LogsAndEventsOfAnEarlierBoot) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "-p", "audit", "--tail", "3"}), 0);
  EXPECT_EQ(out(), "10.0.0.2: audit of boot \"\", last 3\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "--previous", "--boot", "b1", "kernel-last-words"}),
            0);
  EXPECT_EQ(out(), "10.0.0.2: kernel-last-words of boot \"b1\", last -1\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "-p", "-f", "apid"}), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "--boot", "b1", "apid"}), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "events", "--previous"}), 0);
  EXPECT_THAT(out(), HasSubstr("earlier"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "events", "--previous", "--boot", "b1"}), 0);
  EXPECT_EQ(kj::strArray(node("10.0.0.2").requestedEvents, ", "), "boot , boot b1"_kj);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "events", "--previous", "--tail", "3"}), 1);
}

// Catches a followed log that ends with its connection, or starts again from its beginning.
TEST_F(Streams, AFollowedLogGoesOnAfterALostConnection) {
  auto& n = node("10.0.0.2");
  n.logLines.add(kj::str("one"));
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.2", "logs", "-f", "apid"}, kj::mv(interrupt.promise));
  c.settle();
  EXPECT_EQ(out(), "10.0.0.2: one\n");
  n.logLines.add(kj::str("two"));
  c.restart();
  c.settle();
  c.clock.advanceTo(c.clock.now() + 1 * kj::SECONDS);  // the pause before the next attempt
  c.settle();
  EXPECT_EQ(out(), "10.0.0.2: two\n");
  EXPECT_THAT(err(), AllOf(HasSubstr("10.0.0.2: connection lost ("),
                           HasSubstr("continues where it stopped")));
  ASSERT_EQ(n.logFrom.size(), 2u);
  EXPECT_EQ(n.logFrom[1], 1u);

  n.bootId = kj::str("boot-2");  // positions of another boot are invalid
  n.logLines.clear();
  n.logLines.add(kj::str("fresh"));
  c.restart();
  c.settle();
  c.clock.advanceTo(c.clock.now() + 1 * kj::SECONDS);
  c.settle();
  EXPECT_EQ(out(), "10.0.0.2: fresh\n");
  EXPECT_THAT(err(), HasSubstr("was rebooted"));
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
}

// Catches: a followed log that ends after a reboot, because its service has not started yet; one
// that waits for ever for a log that the node no longer has.
TEST_F(Streams, AFollowedLogWaitsForItsServiceAfterAReboot) {
  auto& n = node("10.0.0.2");
  n.logLines.add(kj::str("one"));
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.2", "logs", "-f", "apid"}, kj::mv(interrupt.promise));
  c.settle();
  EXPECT_EQ(out(), "10.0.0.2: one\n");
  n.bootId = kj::str("boot-2");
  n.logLines.clear();
  n.logsAbsent = true;
  c.restart();
  auto pass = [&](unsigned seconds) {
    for (; seconds > 0; --seconds) {
      c.settle();
      c.clock.advanceTo(c.clock.now() + 1 * kj::SECONDS);
    }
    c.settle();
  };
  pass(30);
  EXPECT_THAT(err(), AllOf(HasSubstr("was rebooted"),
                           HasSubstr("10.0.0.2: waiting until the node has the log again\n"),
                           Not(HasSubstr("no log"))));
  n.logsAbsent = false;
  n.logLines.add(kj::str("fresh"));
  pass(10);
  EXPECT_EQ(out(), "10.0.0.2: fresh\n");
  EXPECT_EQ(err(), "");

  n.bootId = kj::str("boot-3");
  n.logsAbsent = true;
  c.restart();
  pass(400);
  EXPECT_THAT(err(), HasSubstr("ERROR: 10.0.0.2: no log \"apid\"\n"));
  EXPECT_EQ(c.finish(kj::mv(run)), 1);
}

// Catches: logs that a user must know by heart; a flag of one log that the list ignores.
TEST_F(Streams, LogsWithoutAnIdListsTheLogs) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs"}), 0);
  EXPECT_EQ(out(),
            "NODE       LOG\n"
            "10.0.0.2   apid\n"
            "10.0.0.2   ../etcd\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("\"apid\""));
  for (auto flag : {"-f"_kj, "-p"_kj, "-k"_kj, "--tail=3"_kj, "--grep=x"_kj}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "logs", flag}), 1);
    EXPECT_THAT(err(), HasSubstr("needs the id of a log")) << flag.cStr();
  }
}

// Catches a stream that waits forever for a node that disappeared without a message.
TEST_F(Streams, AStreamEndsWhenItsNodeStopsAnswering) {
  auto& n = node("10.0.0.2");
  auto run = c.start({"-n", "10.0.0.2", "get", "svc", "-w", "--timeout", "5s"});
  c.settle();
  n.hangs = true;
  EXPECT_EQ(c.finish(kj::mv(run)), 1);
  EXPECT_EQ(err(), "10.0.0.2: no answer within 5s\n");
}

// Catches: the failure of a node that is reported only when the streams of the others have ended,
// which never happens.
TEST_F(Streams, TheFailureOfANodeIsSaidWhileTheOthersGoOn) {
  node("10.0.0.3").off = true;
  const std::vector<std::vector<kj::StringPtr>> commands = {
      {"-n", "10.0.0.2,10.0.0.3", "events"},
      {"-n", "10.0.0.2,10.0.0.3", "get", "svc", "-w"},
      {"-n", "10.0.0.2,10.0.0.3", "logs", "-f", "apid"}};
  for (auto& words : commands) {
    auto interrupt = kj::newPromiseAndFulfiller<void>();
    auto run = c.start(kj::arrayPtr(words.data(), words.size()), kj::mv(interrupt.promise));
    c.settle();
    EXPECT_THAT(err(), HasSubstr("10.0.0.3: 10.0.0.3:50000: connection refused"))
        << words[2].cStr();
    interrupt.fulfiller->fulfill();
    EXPECT_EQ(c.finish(kj::mv(run)), 0);
    err();
  }
}

// Catches: a slow node whose deadline delays the streams of the others, or applies to them.
TEST_F(Streams, StreamsOfOthersDoNotWaitForANodeThatIsDown) {
  node("10.0.0.3").off = true;
  node("10.0.0.2").logLines.add(kj::str("one"));
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.3,10.0.0.2", "logs", "-f", "apid"}, kj::mv(interrupt.promise));
  c.settle();
  EXPECT_EQ(out(), "10.0.0.2: one\n");
  node("10.0.0.2").logLines.add(kj::str("two"));
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
}

}  // namespace
}  // namespace talos::talosctl
