#include "machined/screen/virtual-terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <kj/debug.h>
#include <unistd.h>

#include <string>

namespace talos::machined {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A pipe, which can be full as a terminal with Scroll Lock is.
struct VirtualTerminalTest : public testing::Test {
  ~VirtualTerminalTest() noexcept override {}
  kj::AutoCloseFd reading, writing;
  kj::Maybe<kj::Own<VirtualTerminal>> terminal;

  VirtualTerminalTest() {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_NONBLOCK | O_CLOEXEC));
    reading = kj::AutoCloseFd(ends[0]), writing = kj::AutoCloseFd(ends[1]);
    terminal = kj::heap<VirtualTerminal>(kj::AutoCloseFd(dup(writing)));
  }
  void show(kj::StringPtr text) {
    Canvas canvas(2, 8);
    canvas.put(1, 0, text);
    KJ_ASSERT_NONNULL(terminal)->show(kj::mv(canvas));
  }
  std::string written() {
    std::string all;
    char bytes[4096];
    for (ssize_t n; (n = read(reading, bytes, sizeof bytes)) > 0;) all.append(bytes, size_t(n));
    return all;
  }
  void fill(size_t room) {
    char block[4096] = {};
    while (write(writing, block, sizeof block) > 0) {
    }
    KJ_ASSERT(read(reading, block, room) == ssize_t(room));
  }
};

TEST_F(VirtualTerminalTest, WritesOnlyTheChanges) {
  show("boot 1");
  EXPECT_THAT(written(), StartsWith("\x1b%G\x1b[?25l\x1b[0m\x1b[2J"));
  show("boot 2");
  EXPECT_EQ(written(),
            "\x1b"
            "7\x1b[2;6H\x1b[0m2\x1b"
            "8");
  show("boot 2");
  EXPECT_EQ(written(), "");
}

// Catches: a brain that blocks on its screen; a brain that counts unwritten text as shown.
TEST_F(VirtualTerminalTest, DrawsAnewWhatATerminalDidNotTake) {
  show("boot 1");
  fill(4096);
  for (int i = 2; i < 400; ++i) show(kj::str("boot ", i));
  written();
  show("boot 400");
  EXPECT_THAT(written(), StartsWith("\x1b%G\x1b[?25l\x1b[0m\x1b[2J"));
  show("boot 401");
  EXPECT_THAT(written(), Not(HasSubstr("\x1b[2J")));
}

// Catches: a page that kernel messages overwrite; last messages of a kernel that are not on the
// shown terminal; a page of another height whose old rows scroll away.
TEST_F(VirtualTerminalTest, LeavesTheRowsBelowThePageToTheKernel) {
  show("boot 1");
  EXPECT_THAT(written(), EndsWith("\x1b[3;25r\x1b[25;1H"));
  show("boot 2");
  EXPECT_THAT(written(), Not(HasSubstr("r")));
  auto showRows = [&](size_t rows) {
    KJ_ASSERT_NONNULL(terminal)->show(Canvas(rows, 8));
    return written();
  };
  EXPECT_THAT(showRows(23), AllOf(StartsWith("\x1b[0m\x1b[2J"), EndsWith("\x1b[24;25r\x1b[25;1H")));
  EXPECT_THAT(showRows(24), EndsWith("\x1b[r\x1b[25;1H"));
  EXPECT_THAT(showRows(25), EndsWith("\x1b[r\x1b[25;1H"));
}

TEST_F(VirtualTerminalTest, HasAUsualSizeWhereNobodyKnowsIt) {
  EXPECT_EQ(KJ_ASSERT_NONNULL(terminal)->rows(), 25u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(terminal)->columns(), 80u);
  EXPECT_TRUE(VirtualTerminal::open("/nonexistent/tty2") == nullptr);
}

}  // namespace
}  // namespace talos::machined
