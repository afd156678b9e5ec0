// A bucket with the API of S3 for tests. It refuses the requests that S3 refuses: a wrong signature
// (checked with the code that s3-signature-test.cc compares with the documents), a body with
// another hash, another bucket.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backupd/s3-signature.h"
#include "common/base/sha256.h"
#include "common/net/http-header-names.h"
#include "common/testing/test-http-server.h"

namespace talos::backupd {

class S3Server final : public kj::HttpService {
 public:
  struct Reply {
    unsigned status = 503;
    std::string body = "<Error><Code>SlowDown</Code><Message>later</Message></Error>";
    bool unread = false;  // Replies before it has read the request.
    bool closes = false;  // Closes the connection, after this many bytes of the body.
  };

  explicit S3Server(kj::AsyncIoContext& io, TestHttpServer::Options options = {})
      : server(io, headers.table(), *this, options) {}

  const std::string bucket = "backups", accessKey = "AKIATEST", secretKey = "wJalrXUtnFEMI/K7MDENG",
                    region = "eu-central-1";
  std::map<std::string, std::string> objects;  // by key
  std::deque<Reply> replies;                   // next replies; afterwards requests succeed
  std::vector<std::string> requests;           // "PUT /backups/a"
  size_t pageSize = 1000;

 private:
  struct Headers : public HttpHeaderNames {
    kj::HttpHeaderId authorization = add("Authorization"), date = add("x-amz-date"),
                     payload = add("x-amz-content-sha256");
  };
  Headers headers;

 public:
  TestHttpServer server;

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& in,
                            kj::AsyncInputStream& body, Response& response) override {
    requests.push_back(kj::str(method, " ", url).cStr());
    if (!replies.empty()) {
      auto reply = replies.front();
      replies.pop_front();
      if (reply.closes) {
        kj::byte some[1000];
        co_await body.tryRead(some, 1, sizeof some);
        server.breakConnections();
        co_await kj::Promise<void>(kj::NEVER_DONE);
      }
      if (!reply.unread) co_await body.readAllBytes();
      co_return co_await answer(response, reply.status, reply.body);
    }
    auto content = co_await body.readAllBytes();
    std::string text(reinterpret_cast<const char*>(content.begin()), content.size());
    auto problem = problemOf(method, url, in, content);
    if (!problem.empty()) {
      co_return co_await answer(response, 403,
                                "<Error><Code>" + problem + "</Code><Message>no</Message></Error>");
    }
    auto parts = split(url);
    if (parts.key.empty()) co_return co_await answer(response, 200, page(parts));
    if (method == kj::HttpMethod::PUT) objects[parts.key] = text;
    if (method == kj::HttpMethod::DELETE) objects.erase(parts.key);
    co_await answer(response, method == kj::HttpMethod::PUT ? 200 : 204, "");
  }

 private:
  struct Target {
    std::string key;
    std::map<std::string, std::string> query;
  };

  static std::string decoded(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  }

  Target split(kj::StringPtr url) const {
    Target target;
    std::string text = url.cStr();
    auto mark = text.find('?');
    auto path = text.substr(0, mark);
    target.key = decoded(path.substr(std::min(path.size(), bucket.size() + 2)));
    while (mark != text.npos) {
      auto next = text.find('&', mark + 1);
      auto pair = text.substr(mark + 1, next == text.npos ? next : next - mark - 1);
      auto equals = pair.find('=');
      target.query[decoded(pair.substr(0, equals))] = decoded(pair.substr(equals + 1));
      mark = next;
    }
    return target;
  }

  std::string problemOf(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& in,
                        kj::ArrayPtr<const kj::byte> content) const {
    std::string whole = url.cStr();
    if (whole.rfind("/" + bucket + "/", 0) != 0) return "NoSuchBucket";
    auto payload = in.get(headers.payload).orDefault("");
    Sha256 hash;
    hash.add(content);
    if (hash.hex() != payload) return "XAmzContentSHA256Mismatch";
    auto name = kj::str(method);
    S3Request request{.method = name,
                      .host = KJ_REQUIRE_NONNULL(in.get(kj::HttpHeaderId::HOST)),
                      .path = kj::str(whole.substr(0, whole.find('?')).c_str()),
                      .payload = kj::str(payload)};
    for (auto& [key, value] : split(url).query) {
      request.query.add(S3Request::Parameter{kj::str(key.c_str()), kj::str(value.c_str())});
    }
    auto expected = signS3(request, {accessKey.c_str(), secretKey.c_str(), region.c_str()},
                           dateOf(in.get(headers.date).orDefault("")));
    bool same = in.get(headers.authorization).orDefault("") == expected.authorization;
    return same ? "" : "SignatureDoesNotMatch";
  }

  // Parses "20261127T110000Z".
  static kj::Date dateOf(kj::StringPtr text) {
    tm parts = {};
    KJ_REQUIRE(strptime(text.cStr(), "%Y%m%dT%H%M%SZ", &parts) != nullptr);
    return kj::UNIX_EPOCH + timegm(&parts) * kj::SECONDS;
  }

  std::string page(const Target& target) const {
    std::string list;
    size_t count = 0;
    bool more = false;
    auto get = [&](const char* name) {
      auto found = target.query.find(name);
      return found == target.query.end() ? std::string() : found->second;
    };
    for (auto& [key, content] : objects) {
      if (key.rfind(get("prefix"), 0) != 0 || key <= get("start-after")) continue;
      more = count == pageSize;
      if (more) break;
      ++count;
      list += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(content.size()) +
              "</Size></Contents>";
    }
    return std::string(
               "<?xml version=\"1.0\"?><ListBucketResult "
               "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>") +
           (more ? "true" : "false") + "</IsTruncated>" + list + "</ListBucketResult>";
  }

  kj::Promise<void> answer(Response& response, unsigned status, std::string body) {
    kj::HttpHeaders out(headers.table());
    auto stream = response.send(status, "Text", out, body.size());
    if (!body.empty()) co_await stream->write(body.data(), body.size());
  }
};

}  // namespace talos::backupd
