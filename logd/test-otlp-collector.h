// A receiver of OTLP over HTTP for tests, on an address of this thread's network. It checks
// requests strictly against the schema (opentelemetry/proto/collector/logs/v1/logs_service.proto
// with its imports, and the JSON rules of the OTLP specification).
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/kube/json.h"
#include "common/net/http-header-names.h"
#include "common/tar/test-tar.h"
#include "common/testing/test-http-server.h"

namespace talos::logd {

using Json = kube::Json;

// Finds the errors that a strict receiver would refuse.
class OtlpSchema {
 public:
  static std::vector<std::string> problemsOf(const Json& request) {
    OtlpSchema schema;
    schema.list(request, "resourceLogs", [&](const Json& resource) {
      schema.only(resource, {"resource", "scopeLogs", "schemaUrl"});
      schema.attributes(resource["resource"], {"service.name", "host.name"});
      schema.list(resource, "scopeLogs", [&](const Json& scope) {
        schema.only(scope, {"scope", "logRecords", "schemaUrl"});
        schema.list(scope, "logRecords", [&](const Json& record) { schema.record(record); });
      });
    });
    schema.only(request, {"resourceLogs"});
    return schema.problems;
  }

 private:
  std::vector<std::string> problems;

  void fail(const std::string& what, const Json& at) {
    problems.push_back(what + ": " + at.dump());
  }
  void only(const Json& object, const std::set<std::string>& names) {
    if (!object.is_object()) return fail("no object", object);
    std::set<std::string> seen;
    for (auto& [name, value] : object.items()) {
      if (!names.contains(name)) fail("unknown field " + name, object);
    }
  }
  // Checks a list with at least one member.
  void list(const Json& object, const char* name, std::function<void(const Json&)> each) {
    if (!object.is_object() || !object.contains(name) || !object[name].is_array() ||
        object[name].empty()) {
      return fail(std::string("no list ") + name, object);
    }
    for (auto& member : object[name]) each(member);
  }
  // Checks a 64-bit number of protobuf in JSON.
  void decimal(const Json& value) {
    auto text = value.is_string() ? value.get<std::string>() : "";
    bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || (text.size() > 1 && text[0] == '0') || text.size() > 20) {
      fail("no decimal number in quotes", value);
    }
  }
  void anyValue(const Json& value) {
    if (!value.is_object() || value.size() != 1) return fail("no AnyValue", value);
    auto& kind = value.begin().key();
    if (kind == "intValue") return decimal(value["intValue"]);
    if (kind != "stringValue" || !value["stringValue"].is_string()) fail("no AnyValue", value);
  }
  void attributes(const Json& holder, const std::set<std::string>& required = {}) {
    if (!holder.is_object() || !holder.contains("attributes") || !holder["attributes"].is_array()) {
      return fail("no list attributes", holder);
    }
    std::set<std::string> keys;
    for (auto& attribute : holder["attributes"]) {
      only(attribute, {"key", "value"});
      auto key = attribute.value("key", std::string());
      if (key.empty() || !keys.insert(key).second) fail("no key of its own", attribute);
      anyValue(attribute["value"]);
    }
    for (auto& key : required) {
      if (!keys.contains(key)) fail("no attribute " + key, holder);
    }
  }
  void record(const Json& record) {
    only(record, {"timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "body",
                  "attributes", "droppedAttributesCount", "flags", "traceId", "spanId"});
    if (!record.is_object()) return;
    decimal(record.value("timeUnixNano", Json()));
    decimal(record.value("observedTimeUnixNano", Json()));
    auto severity = record.value("severityNumber", Json());
    if (!severity.is_number_integer() || severity < 1 || severity > 24) fail("severity", record);
    if (!record.value("severityText", Json()).is_string()) fail("severityText", record);
    anyValue(record.value("body", Json()));
    attributes(record);
  }
};

class OtlpCollector final : public kj::HttpService {
 public:
  struct Reply {
    unsigned status = 200;
    std::string body = "{}", retryAfter = "";
    bool closes = false;  // Closes the connection instead of an answer.
    bool unread = false;  // Answers before it has read the request.
  };

  explicit OtlpCollector(kj::AsyncIoContext& io, TestHttpServer::Options options = {})
      : server(io, headers.table(), *this, options) {}

  std::deque<Reply> replies;  // next replies; afterwards all requests are accepted
  std::vector<std::string> bodies, paths, types, encodings, authorizations, problems;
  std::vector<std::string> taken;  // "service: text" for each record of requests answered with 200
  std::vector<size_t> received;    // received bytes of each body

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& in,
                            kj::AsyncInputStream& body, Response& response) override {
    Reply reply;
    if (!replies.empty()) {
      reply = replies.front();
      replies.pop_front();
    }
    if (method != kj::HttpMethod::POST) problems.push_back("no POST");
    paths.push_back(url.cStr());
    types.push_back(in.get(kj::HttpHeaderId::CONTENT_TYPE).orDefault("").cStr());
    encodings.push_back(in.get(headers.contentEncoding).orDefault("").cStr());
    authorizations.push_back(in.get(headers.authorization).orDefault("").cStr());
    if (!reply.unread) {
      auto bytes = co_await body.readAllBytes(4u << 20);
      received.push_back(bytes.size());
      auto text = decoded(kj::mv(bytes));
      auto json = kube::readJson(text, "the request");
      for (auto& problem : OtlpSchema::problemsOf(json)) problems.push_back(problem);
      bodies.push_back(text.cStr());
      if (reply.status == 200 && !reply.closes) take(json);
    }
    if (reply.closes) {
      server.breakConnections();
      co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    kj::HttpHeaders out(headers.table());
    out.set(kj::HttpHeaderId::CONTENT_TYPE, "application/json");
    auto retry = kj::str(reply.retryAfter.c_str());
    if (retry.size() > 0) out.set(headers.retryAfter, retry);
    auto stream = response.send(reply.status, "Text", out, reply.body.size());
    co_await stream->write(reply.body.data(), reply.body.size());
  }

 private:
  struct Headers : public HttpHeaderNames {
    kj::HttpHeaderId retryAfter = add("Retry-After"), contentEncoding = add("Content-Encoding"),
                     authorization = add("Authorization");
  };
  Headers headers;

 public:
  TestHttpServer server;

 private:
  kj::String decoded(kj::Array<kj::byte> body) {
    if (encodings.back() == "") return kj::heapString(body.asChars());
    if (encodings.back() == "gzip") {
      KJ_IF_MAYBE (text, gunzip(body, 4u << 20)) return kj::heapString(text->asChars());
    }
    problems.push_back("no encoding that is known: " + encodings.back());
    return kj::str("{}");
  }

  void take(const Json& request) {
    for (auto& resource : request["resourceLogs"]) {
      auto service = resource["resource"]["attributes"][0]["value"]["stringValue"];
      for (auto& record : resource["scopeLogs"][0]["logRecords"]) {
        taken.push_back(service.get<std::string>() + ": " +
                        record["body"]["stringValue"].get<std::string>());
      }
    }
  }
};

}  // namespace talos::logd
