// The page of WebScreen in a browser: Chromium without a window, which the test leads by the Chrome
// DevTools Protocol (messages in JSON, each ended by a NUL, on descriptors 3 and 4).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/base/file.h"
#include "talosctl/dashboard/web-screen.h"

extern char** environ;

namespace talos::talosctl::dashboard {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

constexpr auto kDeadline = 120 * kj::SECONDS;

class Browser {
 public:
  explicit Browser(kj::AsyncIoContext& io) : io(io) {
    char made[] = "/tmp/talosctl-browser-XXXXXX";
    folder = kj::str(KJ_ASSERT_NONNULL(kj::Maybe<char*>(mkdtemp(made))));
    int to[2], from[2];
    KJ_SYSCALL(pipe2(to, O_CLOEXEC));
    KJ_SYSCALL(pipe2(from, O_CLOEXEC));
    start(to[0], from[1]);
    close(to[0]);
    close(from[1]);
    requests =
        io.lowLevelProvider->wrapOutputFd(to[1], kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP);
    answers =
        io.lowLevelProvider->wrapInputFd(from[0], kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP);
  }
  ~Browser() {
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    removeTree(folder);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Browser);

  void open(kj::StringPtr address) {
    auto target = call("Target.createTarget", {{"url", address.cStr()}}).at("targetId");
    page = call("Target.attachToTarget", {{"targetId", target}, {"flatten", true}})
               .at("sessionId")
               .get<std::string>();
  }
  // Returns the value of an expression in the page.
  std::string valueOf(const std::string& script) {
    auto result = call("Runtime.evaluate", {{"expression", "String(" + script + ")"}}).at("result");
    return result.value("value", result.dump());
  }
  // Waits until an expression in the page has this text in its value; returns the value.
  std::string await(const std::string& script, const std::string& text) {
    for (;;) {
      auto value = valueOf(script);
      if (value.find(text) != value.npos) return value;
      io.provider->getTimer().afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
    }
  }
  void press(const Json& key) {
    for (auto type : {"rawKeyDown", "keyUp"}) {
      auto event = key;
      event["type"] = type;
      call("Input.dispatchKeyEvent", event);
    }
  }
  void resize(int width, int height) {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  }

 private:
  kj::AsyncIoContext& io;
  kj::String folder;
  pid_t pid = 0;
  int calls = 0;
  std::string page, received;
  kj::Own<kj::AsyncOutputStream> requests;
  kj::Own<kj::AsyncInputStream> answers;

  void start(int in, int out) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    KJ_DEFER(posix_spawn_file_actions_destroy(&files));
    // Above 4 first, so that neither of the two copies overwrites the other's source.
    int high[] = {fcntl(in, F_DUPFD_CLOEXEC, 10), fcntl(out, F_DUPFD_CLOEXEC, 10)};
    KJ_DEFER(for (int fd : high) close(fd));
    posix_spawn_file_actions_adddup2(&files, high[0], 3);
    posix_spawn_file_actions_adddup2(&files, high[1], 4);
    auto log = kj::str(folder, "/log");
    posix_spawn_file_actions_addopen(&files, 2, log.cStr(), O_WRONLY | O_CREAT, 0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    KJ_DEFER(posix_spawnattr_destroy(&attributes));
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    auto data = kj::str("--user-data-dir=", folder, "/data");
    const char* argv[] = {
        "chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--remote-debugging-pipe", data.cStr(),    nullptr};
    int error = posix_spawnp(&pid, argv[0], &files, &attributes, const_cast<char**>(argv), environ);
    KJ_REQUIRE(error == 0, "cannot start chromium-headless-shell", strerror(error));
  }
  std::string nextMessage() {
    size_t end;
    while ((end = received.find('\0')) == received.npos) {
      char bytes[4096];
      auto read = answers->tryRead(bytes, 1, sizeof bytes);
      auto late = io.provider->getTimer().afterDelay(kDeadline).then(
          []() -> size_t { KJ_FAIL_REQUIRE("no answer of the browser"); });
      auto count = read.exclusiveJoin(kj::mv(late)).wait(io.waitScope);
      KJ_REQUIRE(count > 0, "the browser has ended", readFile(kj::str(folder, "/log")));
      received.append(bytes, count);
    }
    auto message = received.substr(0, end);
    received.erase(0, end + 1);
    return message;
  }
  Json call(const char* method, Json parameters) {
    Json request = {{"id", ++calls}, {"method", method}, {"params", std::move(parameters)}};
    if (!page.empty()) request["sessionId"] = page;
    auto text = request.dump();
    requests->write(text.c_str(), text.size() + 1).wait(io.waitScope);
    for (;;) {
      auto message = Json::parse(nextMessage());
      if (message.value("id", 0) != calls) continue;  // an event
      KJ_REQUIRE(message.contains("result"), message.dump().c_str());
      return message["result"];
    }
  }
};

struct WebPageTest : public testing::Test {
  ~WebPageTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  WebScreen screen{*io.lowLevelProvider, io.provider->getTimer(), 0};
  Browser browser{io};

  void show(kj::StringPtr text) {
    Canvas canvas(screen.rows(), screen.columns());
    canvas.put(0, 0, text);
    screen.show(kj::mv(canvas));
  }
  std::string typed() {
    auto late = io.provider->getTimer().afterDelay(kDeadline).then(
        []() -> kj::Array<char> { KJ_FAIL_REQUIRE("no key arrived"); });
    auto keys = screen.typed().exclusiveJoin(kj::mv(late)).wait(io.waitScope);
    return {keys.begin(), keys.size()};
  }
};

constexpr const char* kShown = "document.getElementById('screen').textContent";
constexpr const char* kLost = "document.getElementById('lost').hidden";

// Catches: a script with a mistake, or one that the page's policy stops; text of the cluster that
// becomes a part of the page; a key that the page keeps to itself; a window that is larger than the
// picture.
TEST_F(WebPageTest, ShowsPicturesAndSendsKeys) {
  show("node-1 <img src=x onerror=alert(1)>");
  browser.open(screen.address());
  EXPECT_THAT(browser.await(kShown, "node-1"), HasSubstr("<img src=x onerror=alert(1)>"));
  EXPECT_EQ(browser.valueOf("document.images.length"), "0");
  EXPECT_EQ(browser.valueOf(kLost), "true");
  show("node-2");
  browser.await(kShown, "node-2");
  browser.press({{"key", "ArrowDown"}, {"code", "ArrowDown"}, {"windowsVirtualKeyCode", 40}});
  EXPECT_EQ(typed(), "\x1b[B");
  browser.press({{"key", "/"}, {"code", "Slash"}, {"windowsVirtualKeyCode", 191}});
  EXPECT_EQ(typed(), "/");
  browser.press({{"key", "Tab"}, {"code", "Tab"}, {"windowsVirtualKeyCode", 9}, {"modifiers", 8}});
  EXPECT_EQ(typed(), "\x1b[Z");
  browser.press({{"key", "r"}, {"code", "KeyR"}, {"windowsVirtualKeyCode", 82}, {"modifiers", 2}});
  browser.press({{"key", "q"}, {"code", "KeyQ"}, {"windowsVirtualKeyCode", 81}});
  EXPECT_EQ(typed(), "q") << "a shortcut of the browser is not a key of the dashboard";
  browser.resize(816, 442);
  browser.await(kShown, "node-2");
  while (screen.columns() != 100) {
    io.provider->getTimer().afterDelay(20 * kj::MILLISECONDS).wait(io.waitScope);
  }
  EXPECT_EQ(screen.rows(), 25u);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
