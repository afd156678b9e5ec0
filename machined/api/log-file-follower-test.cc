#include "machined/api/log-file-follower.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/lines.h"

namespace talos::machined {
namespace {

class FollowerSink final : public rpc::LogSink::Server {
 public:
  FollowerSink(std::string& text, uint64_t& next) : text(text), next(next) {}
  kj::Promise<void> write(WriteContext context) override {
    auto bytes = context.getParams().getBytes().asChars();
    text.append(bytes.begin(), bytes.size());
    next = context.getParams().getNext();
    return kj::READY_NOW;
  }

 private:
  std::string& text;
  uint64_t& next;
};

struct LineFileTest : testing::Test {
  ~LineFileTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  ReadPool pool{io.provider->getTimer(), {}, [](kj::StringPtr) {}};
  std::string folder, path, text;
  uint64_t next = 0;

  LineFileTest() {
    char name[] = "/tmp/line-file-test-XXXXXX";
    folder = mkdtemp(name);
    path = folder + "/0.log";
  }
  void TearDown() override { EXPECT_EQ(0, system(("rm -r " + folder).c_str())); }
  void add(const std::string& more) {
    FILE* file = fopen(path.c_str(), "a");
    fputs(more.c_str(), file);
    fclose(file);
  }
  kj::Promise<void> reading(LineFile what) {
    text.clear();
    return readLineFile({pool.of(0), io.unixEventPort, io.provider->getTimer()},
                        kj::str(path.c_str()), kj::mv(what), kj::heap<FollowerSink>(text, next));
  }
  std::string all(LineFile what = {}) {
    reading(kj::mv(what)).wait(io.waitScope);
    io.waitScope.poll();
    return text;
  }
  // Waits until the text is as expected; the test's timeout is the limit.
  void await(kj::Promise<void>& following, const std::string& expected) {
    while (text != expected) {
      ASSERT_FALSE(following.poll(io.waitScope));
      io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
};

// Catches: a tail that counts the newline at the end as a line, or reads before the beginning; an
// incomplete last line that is lost; a position that repeats or skips a line.
TEST_F(LineFileTest, AllTheLastOrFromAPlace) {
  add("a\nb\nc");
  EXPECT_EQ("a\nb\nc\n", all());
  EXPECT_EQ("c\n", all({.tailLines = 1}));
  add("\n");
  EXPECT_EQ("c\n", all({.tailLines = 1}));
  EXPECT_EQ("b\nc\n", all({.tailLines = 2}));
  EXPECT_EQ("a\nb\nc\n", all({.tailLines = 9}));
  EXPECT_EQ("", all({.tailLines = 0}));
  all();
  add("d\n");
  EXPECT_EQ("d\n", all({.from = next}));
  EXPECT_EQ("a\nb\nc\nd\n", all({.from = 1000})) << "of another file";
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "line " + std::to_string(i) + "\n";
  add(many);
  EXPECT_EQ("a\nb\nc\nd\n" + many, all());
  EXPECT_EQ(many, all({.tailLines = 20000}));
  std::string longLine(100'000, 'x');
  add(longLine + "\n");
  auto tail = all({.tailLines = 1});
  EXPECT_EQ(longLine.size(), std::count(tail.begin(), tail.end(), 'x'));
}

// Catches: a tail that is taken before the search; a line of another time, and a line without a
// time after the first matching line; a time in another zone.
TEST_F(LineFileTest, LinesWithATextOrSinceATime) {
  add("2026-11-20T12:00:00.5Z stdout F one\n2026-11-20T14:00:01+02:00 stdout F two\n"
      "2026-11-20T12:00:02Z stderr F three\nno time, four o\n2026-11-20T12:00:03Z stdout F five");
  auto lines = [&](kj::StringPtr contains, int64_t seconds, int tail = -1) {
    LineFilter filter{.contains = kj::str(contains)};
    if (seconds >= 0) {
      filter.since = KJ_ASSERT_NONNULL(parseDate("2026-11-20T12:00:00Z")) + seconds * kj::SECONDS;
    }
    auto found = all({.tailLines = tail, .filter = kj::mv(filter)});
    std::string last;  // last words
    for (auto line : Lines(kj::StringPtr(found.c_str()))) {
      auto text = kj::heapString(line);
      last += text.slice(text.findLast(' ').orDefault(0)).cStr();
    }
    return last;
  };
  EXPECT_EQ(lines("o", -1), " one two o five");
  EXPECT_EQ(lines("F t", -1), " two three");
  EXPECT_EQ(lines("F", -1, 2), " three five");
  EXPECT_EQ(lines("F", -1, 0), "");
  EXPECT_EQ(lines("", 1), " two three o five");
  EXPECT_EQ(lines("", 2), " three o five");
  EXPECT_EQ(lines("stdout", 1), " two five");
  EXPECT_EQ(lines("stdout", 1, 1), " five");
  EXPECT_EQ(lines("", 2, 9), " three o five");
  EXPECT_EQ(lines("", 4), "");
}

// Catches: a follower that misses new lines, sends half a line as a whole one, or stays with a file
// that was rotated away.
TEST_F(LineFileTest, FollowsOverARotation) {
  add("a\nb");
  auto following = reading({.follow = true});
  await(following, "a\n");
  add("b\n");
  await(following, "a\nbb\n");
  ASSERT_EQ(0, rename(path.c_str(), (path + ".1").c_str()));
  add("c\n");
  await(following, "a\nbb\nc\n");
  add("d\n");
  await(following, "a\nbb\nc\nd\n");
}

// Catches: lines that are written to the old file after its end was reached and before its rotation
// was noticed.
TEST_F(LineFileTest, LosesNothingOverManyRotations) {
  constexpr unsigned kRotations = 300, kLines = 20;
  add("begin\n");
  auto following = reading({.follow = true});
  await(following, "begin\n");
  std::atomic<size_t> received = 0;
  std::string expected = "begin\n";
  for (unsigned r = 0; r < kRotations; ++r) {
    for (unsigned i = 0; i < kLines; ++i)
      expected += std::to_string(r) + "." + std::to_string(i) + "\n";
    expected += "new\n";
  }
  std::thread writer([&] {
    size_t written = text.size();
    for (unsigned r = 0; r < kRotations; ++r) {
      for (unsigned i = 0; i < kLines; ++i) {
        auto line = std::to_string(r) + "." + std::to_string(i) + "\n";
        add(line);
        written += line.size();
      }
      rename(path.c_str(), (path + ".1").c_str());
      add("new\n");  // once this line is read, the old file is finished
      written += 4;
      for (size_t now = received; now < written; now = received) received.wait(now);
    }
  });
  KJ_DEFER({
    received = SIZE_MAX;
    received.notify_all();
    writer.join();
  });
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (text.size() < expected.size() && std::chrono::steady_clock::now() < deadline) {
    ASSERT_FALSE(following.poll(io.waitScope));
    io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    received = text.size();
    received.notify_all();
  }
  EXPECT_EQ(expected, text);
}

// Catches: the beginning of a line that was already sent and is repeated after a line that is too
// long.
TEST_F(LineFileTest, ATooLongLineIsTheEnd) {
  add("x\n" + std::string(32768, 'y'));
  auto got = all();
  EXPECT_EQ(32768, std::count(got.begin(), got.end(), 'y'));
}

// Catches: a link that leads to another file of the node, a pipe that blocks the reader.
TEST_F(LineFileTest, OnlyAFileIsRead) {
  auto refused = [&]() { return kj::runCatchingExceptions([&]() { all(); }); };
  EXPECT_EQ(ErrorKind::kNotFound, kindOf(KJ_ASSERT_NONNULL(refused())));
  ASSERT_EQ(0, symlink("/etc/passwd", path.c_str()));
  EXPECT_EQ(ErrorKind::kUnavailable, kindOf(KJ_ASSERT_NONNULL(refused())));
  unlink(path.c_str());
  ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
  EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(KJ_ASSERT_NONNULL(refused())));
}

}  // namespace
}  // namespace talos::machined
