#include "machined/logs/console-log.h"

#include <gtest/gtest.h>

#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

// Catches: a form that no reader of kernel logs knows, a time that is lost or wrong.
TEST(ConsoleLog, LinesAreRecords) {
  EXPECT_EQ(consoleLogRecord("2021/03/01 12:00:05 service apid is up"_kj.asArray()),
            "user:    info: [2021-03-01T12:00:05.000000000Z]: [talos] service apid is up");
  EXPECT_EQ(consoleLogRecord("terminate called: x"_kj.asArray()),
            "user:    info: [talos] terminate called: x");
  EXPECT_EQ(consoleLogRecord(""_kj.asArray()), "user:    info: [talos] ");
  EXPECT_EQ(consoleLogRecord("[talos] [init] started"_kj.asArray()),
            "user:    info: [talos] [init] started");
  EXPECT_EQ(consoleLogRecord("2021/03/01 12:00:05"_kj.asArray()),
            "user:    info: [talos] 2021/03/01 12:00:05");
}

class Reader final : public rpc::LogSink::Server {
 public:
  struct Received {
    kj::String text = kj::str();
    uint64_t next = 0;
  };
  explicit Reader(Received& received) : received(received) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    received.text =
        kj::str(received.text, kj::heapString(context.getParams().getBytes().asChars()));
    received.next = context.getParams().getNext();
    return kj::READY_NOW;
  }

 private:
  Received& received;
};

struct ConsoleLogTest : public testing::Test {
  kj::UnixEventPort port;
  kj::EventLoop loop{port};
  kj::WaitScope scope{loop};
  FakeMachine machine;
  FakeProcess1 process1{machine};
  Logs logs{process1, port};

  ~ConsoleLogTest() noexcept override {}
  void say(kj::StringPtr text) {
    logs.append("machined", kj::str("2021/03/01 12:00:05 ", text, "\n").asArray());
  }
  kj::Promise<void> read(Reader::Received& received, bool follow, bool onlyNew, uint64_t from = 0) {
    capnp::MallocMessageBuilder message;
    auto params = message.initRoot<rpc::Logs::KernelParams>();
    params.setFollow(follow);
    params.setOnlyNew(onlyNew);
    params.setFromSequence(from);
    params.setSink(kj::heap<Reader>(received));
    auto promise = serveConsoleLog(logs, params.asReader()).eagerlyEvaluate(nullptr);
    scope.poll();
    return promise;
  }
};

// Catches: a node in a container that shows no lines, a line that is repeated after a lost
// connection, and a reader of new lines that gets old ones.
TEST_F(ConsoleLogTest, IsReadAsAKernelLogIs) {
  say("one");
  Reader::Received all;
  auto read1 = read(all, false, false);
  ASSERT_TRUE(read1.poll(scope));
  EXPECT_EQ(all.text, "user:    info: [2021-03-01T12:00:05.000000000Z]: [talos] one\n");
  Reader::Received nothing, fresh, again;
  ASSERT_TRUE(read(nothing, false, true).poll(scope));
  EXPECT_EQ(nothing.text, "");
  auto read2 = read(fresh, true, true);
  say("two");
  EXPECT_FALSE(read2.poll(scope));
  EXPECT_TRUE(fresh.text.endsWith("]: [talos] two\n"));
  EXPECT_EQ(nullptr, strstr(fresh.text.cStr(), "one"));
  ASSERT_TRUE(read(again, false, false, all.next).poll(scope));
  EXPECT_EQ(again.text, fresh.text);
}

}  // namespace
}  // namespace talos::machined
