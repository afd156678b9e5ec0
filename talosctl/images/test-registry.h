// A registry in memory for tests: an index of two platforms with an image each. It counts requests,
// and can require a token, lie, or end in the middle of a blob.
#pragma once

#include <kj/debug.h>

#include <map>
#include <string>
#include <vector>

#include "common/base/sha256.h"
#include "common/net/http-header-names.h"
#include "common/testing/test-http-server.h"

namespace talos::talosctl {

class TestRegistry final : public kj::HttpService {
 public:
  explicit TestRegistry(kj::AsyncIoContext& io) : server(io, headers.table(), *this, {}) {
    auto image = [this](std::string platform) {
      auto config = put("config of " + platform), layer = put("layer of " + platform);
      return put(R"({"schemaVersion":2,"config":)" + describe(config) + R"(,"layers":[)" +
                 describe(layer) + "," + describe(shared) + "]}");
    };
    amd64 = image("amd64");
    arm64 = image("arm64");
    auto of = [this](std::string digest, std::string architecture) {
      auto text = describe(digest);
      text.pop_back();
      return text + R"(,"platform":{"os":"linux","architecture":")" + architecture + R"("}})";
    };
    index = put(R"({"schemaVersion":2,"manifests":[)" + of(amd64, "amd64") + "," +
                of(arm64, "arm64") + "]}");
  }

  std::map<std::string, std::string> content;  // by digest
  std::string shared = put(std::string(300'000, 's'));
  std::string amd64, arm64, index;    // digests
  std::vector<std::string> requests;  // "GET /v2/…"
  std::string token;                  // needed, if not empty
  std::string lies, breaks;           // the digest of a wrong answer, and of one that ends early

  std::string host() const { return "127.0.0.1:" + std::to_string(server.port); }

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& asked,
                            kj::AsyncInputStream&, Response& response) override {
    requests.push_back(url.cStr());
    kj::HttpHeaders sent(headers.table());
    if (url.startsWith("/token?")) return send(response, 200, R"({"token":"abc"})");
    auto given = asked.get(headers.authorization).orDefault("");
    if (!token.empty() && given != token.c_str()) {
      sent.set(headers.challenge, kj::str("Bearer realm=\"http://", host().c_str(),
                                          "/token\",service=\"s\",scope=\"repository:a/b:pull\""));
      auto body = response.send(401, "Unauthorized", sent, uint64_t(0));
      return kj::READY_NOW;
    }
    std::string path = url.cStr();
    auto digest = path.substr(path.rfind('/') + 1);
    digest = digest.substr(0, digest.find('?'));
    if (digest == "1") digest = index;
    auto found = content.find(digest);
    if (found == content.end()) return send(response, 404, "");
    auto text = found->second;
    if (digest == lies) text.back() ^= 1;
    return send(response, 200, kj::mv(text), digest == breaks);
  }

 private:
  struct Headers : public HttpHeaderNames {
    kj::HttpHeaderId authorization = add("Authorization"), challenge = add("WWW-Authenticate");
  };
  Headers headers;

 public:
  TestHttpServer server;

 private:
  std::string put(std::string text) {
    Sha256 sum;
    sum.add(kj::arrayPtr(text.data(), text.size()).asBytes());
    std::string digest = kj::str("sha256:", sum.hex()).cStr();
    content[digest] = text;
    return digest;
  }
  std::string describe(const std::string& digest) {
    return R"({"digest":")" + digest + R"(","size":)" + std::to_string(content[digest].size()) +
           "}";
  }
  kj::Promise<void> send(Response& response, unsigned status, std::string text,
                         bool breaksOff = false) {
    kj::HttpHeaders sent(headers.table());
    auto body = response.send(status, "-", sent, text.size());
    if (text.empty()) co_return;
    co_await body->write(text.data(), breaksOff ? text.size() / 2 : text.size());
    if (breaksOff) KJ_FAIL_ASSERT("the connection ends");
  }
};

}  // namespace talos::talosctl
