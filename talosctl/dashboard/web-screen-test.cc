#include "talosctl/dashboard/web-screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>

namespace talos::talosctl::dashboard {
namespace {

using testing::HasSubstr;

struct WebScreenTest : public testing::Test {
  ~WebScreenTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  WebScreen screen{*io.lowLevelProvider, io.provider->getTimer(), 0};
  kj::HttpHeaderTable::Builder names;
  kj::HttpHeaderId policy = names.add("Content-Security-Policy");
  kj::Own<kj::HttpHeaderTable> table = names.build();
  std::string host =
      withoutScheme(screen.address()).substr(0, withoutScheme(screen.address()).find('/'));
  std::string folder = withoutScheme(screen.address()).substr(host.size());
  kj::Own<kj::HttpClient> browser = newBrowser();

  static std::string withoutScheme(kj::StringPtr address) {
    return std::string(address.cStr()).substr(sizeof "http://" - 1);
  }
  kj::Own<kj::HttpClient> newBrowser() {
    auto address = io.provider->getNetwork().parseAddress(host.c_str()).wait(io.waitScope);
    auto stream = address->connect().wait(io.waitScope);
    auto client = kj::newHttpClient(*table, *stream);
    return client.attach(kj::mv(stream));
  }

  // Sends a request without its own headers, but this Host.
  kj::HttpClient::Response send(kj::HttpMethod method, const std::string& path,
                                const std::string& body = "", const char* toHost = nullptr) {
    kj::HttpHeaders headers(*table);
    headers.set(kj::HttpHeaderId::HOST, toHost == nullptr ? host.c_str() : toHost);
    auto request = browser->request(method, path.c_str(), headers, uint64_t(body.size()));
    if (!body.empty()) request.body->write(body.data(), body.size()).wait(io.waitScope);
    request.body = nullptr;
    return request.response.wait(io.waitScope);
  }
  unsigned statusOf(kj::HttpMethod method, const std::string& path, const std::string& body = "",
                    const char* toHost = nullptr) {
    auto response = send(method, path, body, toHost);
    response.body->readAllText().wait(io.waitScope);
    return response.statusCode;
  }
  std::string press(const std::string& keys) {
    EXPECT_EQ(statusOf(kj::HttpMethod::POST, folder + "keys", keys), 204u);
    auto typed = screen.typed().wait(io.waitScope);
    return {typed.begin(), typed.size()};
  }
  // Reads until the stream has had this text.
  std::string readUntil(kj::AsyncInputStream& stream, const std::string& text) {
    std::string all;
    while (all.find(text) == all.npos) {
      char bytes[4096];
      auto count = stream.tryRead(bytes, 1, sizeof bytes).wait(io.waitScope);
      if (count == 0) break;
      all.append(bytes, count);
    }
    return all;
  }
  static Canvas canvasOf(kj::StringPtr text) {
    Canvas canvas(2, 40);
    canvas.put(0, 0, text);
    return canvas;
  }
};

// Catches: a page whose script the browser does not run, because the policy has another word.
TEST_F(WebScreenTest, ThePageMayRunItsScriptAndNothingElse) {
  auto response = send(kj::HttpMethod::GET, folder);
  auto page = response.body->readAllText().wait(io.waitScope);
  std::string text = page.cStr();
  EXPECT_EQ(response.statusCode, 200u);
  auto at = text.find("nonce=\"");
  ASSERT_NE(at, text.npos);
  auto word = text.substr(at + 7, text.find('"', at + 7) - at - 7);
  EXPECT_EQ(word.size(), 32u);
  auto allowed = KJ_ASSERT_NONNULL(response.headers->get(policy));
  EXPECT_THAT(allowed.cStr(), HasSubstr("default-src 'none'"));
  EXPECT_THAT(allowed.cStr(), HasSubstr("script-src 'nonce-" + word + "'"));
}

// Catches: a picture without a browser that is lost; a line of the picture that ends its event.
TEST_F(WebScreenTest, PicturesArriveAsEvents) {
  screen.show(canvasOf("first"));
  auto response = send(kj::HttpMethod::GET, folder + "pictures?rows=40&columns=100");
  auto first = readUntil(*response.body, "</svg>");
  EXPECT_TRUE(first.starts_with("data: <svg ")) << first;
  EXPECT_THAT(first, HasSubstr("\ndata: <text "));
  EXPECT_THAT(first, HasSubstr(">first</text>"));
  EXPECT_EQ(screen.rows(), 40u);
  EXPECT_EQ(screen.columns(), 100u);
  screen.show(canvasOf("first"));
  screen.show(canvasOf("second"));
  screen.show(canvasOf("third"));
  auto next = readUntil(*response.body, "</svg>");
  EXPECT_EQ(next.find("first"), next.npos) << next;
  EXPECT_THAT(next, HasSubstr(">third</text>"));
}

// Catches: a window that makes talosctl draw a picture of any size.
TEST_F(WebScreenTest, TheSizeHasLimits) {
  send(kj::HttpMethod::GET, folder + "pictures?columns=4000000000&rows=1");
  EXPECT_EQ(screen.rows(), 10u);
  EXPECT_EQ(screen.columns(), 400u);
  browser = newBrowser();
  send(kj::HttpMethod::GET, folder + "pictures?rows=-5&columns=many");
  EXPECT_EQ(screen.rows(), 10u);
  EXPECT_EQ(screen.columns(), 400u);
}

// Catches: a key that is lost because the dashboard did not wait for one; a body of any length.
TEST_F(WebScreenTest, KeysAreThoseOfATerminal) {
  EXPECT_EQ(press("\x1b[A"), "\x1b[A");
  auto typing = screen.typed();
  EXPECT_FALSE(typing.poll(io.waitScope));
  EXPECT_EQ(statusOf(kj::HttpMethod::POST, folder + "keys", "j"), 204u);
  EXPECT_EQ(typing.wait(io.waitScope).size(), 1u);
  EXPECT_EQ(statusOf(kj::HttpMethod::POST, folder + "keys", std::string(65, 'j')), 413u);
}

// Catches: a page of another site, or a user of the host who does not know the address, that sees
// the cluster or presses keys.
TEST_F(WebScreenTest, AnswersOnlyAtItsAddress) {
  EXPECT_EQ(statusOf(kj::HttpMethod::GET, "/"), 404u);
  EXPECT_EQ(statusOf(kj::HttpMethod::GET, "/pictures"), 404u);
  EXPECT_EQ(statusOf(kj::HttpMethod::POST, "/keys", "q"), 404u);
  EXPECT_EQ(statusOf(kj::HttpMethod::GET, folder + "other"), 404u);
  EXPECT_EQ(statusOf(kj::HttpMethod::GET, folder, "", "dashboard.example.com"), 421u);
  EXPECT_EQ(statusOf(kj::HttpMethod::GET, folder + "keys"), 405u);
  EXPECT_EQ(statusOf(kj::HttpMethod::POST, folder + "pictures"), 405u);
  EXPECT_EQ(statusOf(kj::HttpMethod::POST, folder + "keys", "q"), 204u);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
