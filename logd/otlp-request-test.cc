#include "logd/otlp-request.h"

#include <gtest/gtest.h>

#include "common/wire/event-line.h"
#include "logd/test-otlp-collector.h"

namespace talos::logd {
namespace {

using config::LogStream;

// 2026-11-20T12:07:35.042000001Z
const kj::Date kOtlpReceived = kj::UNIX_EPOCH + 1'795'176'455'042'000'001 * kj::NANOSECONDS;

struct OtlpRequestTest : public testing::Test {
  ~OtlpRequestTest() noexcept override {}

  kj::Vector<LineTag> tags;
  kj::String hostname = kj::str("node-1");
  kj::Own<OtlpRequest> request;

  OtlpRequestTest& add(kj::StringPtr text, LogStream stream = LogStream::SERVICES,
                       kj::StringPtr id = "apid") {
    if (request.get() == nullptr) request = kj::heap<OtlpRequest>(tags.asPtr(), hostname);
    request->add({.stream = stream, .id = id, .text = text, .received = kOtlpReceived});
    return *this;
  }
  Json finish() {
    auto text = request->finish();
    request = nullptr;
    auto json = kube::readJson(text, "the request");
    for (auto& problem : OtlpSchema::problemsOf(json)) ADD_FAILURE() << problem;
    return json;
  }
  static Json attributes(const Json& holder) {
    Json all = Json::object();
    for (auto& one : holder["attributes"]) all[one["key"].get<std::string>()] = one["value"];
    return all;
  }
};

Json recordOf(const Json& request, size_t resource, size_t record) {
  return request["resourceLogs"][resource]["scopeLogs"][0]["logRecords"][record];
}

// Catches: a 64-bit number that is not a text; swapped times; a resource for each line, or one for
// all; a missing tag.
TEST_F(OtlpRequestTest, HasAResourceForEachLog) {
  tags.add(LineTag{kj::str("rack"), kj::str("r\"17\n")});
  add("time=2026-11-20T12:00:00.5Z level=error msg=x")
      .add("plain")
      .add("x", LogStream::SERVICES, "kubelet");
  auto json = add("y", LogStream::AUDIT, "audit").finish();
  ASSERT_EQ(3u, json["resourceLogs"].size());
  EXPECT_EQ(2u, json["resourceLogs"][0]["scopeLogs"][0]["logRecords"].size());
  EXPECT_EQ(Json::parse(R"({"service.name": {"stringValue": "apid"},
                            "service.namespace": {"stringValue": "talos"},
                            "host.name": {"stringValue": "node-1"},
                            "talos.stream": {"stringValue": "services"},
                            "rack": {"stringValue": "r\"17\n"}})"),
            attributes(json["resourceLogs"][0]["resource"]));
  EXPECT_EQ(Json::parse(R"({"timeUnixNano": "1795176000500000000",
                            "observedTimeUnixNano": "1795176455042000001",
                            "severityNumber": 17, "severityText": "error",
                            "body": {"stringValue": "time=2026-11-20T12:00:00.5Z level=error msg=x"},
                            "attributes": []})"),
            recordOf(json, 0, 0));
  EXPECT_EQ("1795176455042000001", recordOf(json, 0, 1)["timeUnixNano"]);
  EXPECT_EQ("kubelet",
            attributes(json["resourceLogs"][1]["resource"])["service.name"]["stringValue"]);
  EXPECT_EQ("audit",
            attributes(json["resourceLogs"][2]["resource"])["talos.stream"]["stringValue"]);
}

// Catches: a mapping of severities that differs from the data model of logs.
TEST_F(OtlpRequestTest, MapsTheSeveritiesOfTheKernel) {
  constexpr unsigned kNumbers[] = {21, 19, 18, 17, 13, 10, 9, 5};
  for (auto severity : kj::indices(kNumbers)) {
    add(kj::str("0,", severity, ",33", severity, ",5140900,1795176455042000001;NET: x"),
        LogStream::KERNEL, "");
  }
  auto json = finish();
  ASSERT_EQ(1u, json["resourceLogs"].size());
  EXPECT_EQ("kernel",
            attributes(json["resourceLogs"][0]["resource"])["service.name"]["stringValue"]);
  for (auto severity : kj::indices(kNumbers)) {
    EXPECT_EQ(kNumbers[severity], recordOf(json, 0, severity)["severityNumber"]);
  }
  EXPECT_EQ("NET: x", recordOf(json, 0, 4)["body"]["stringValue"]);
  EXPECT_EQ(Json::parse(R"({"kernel.facility": {"stringValue": "kern"},
                            "kernel.priority": {"stringValue": "warning"},
                            "kernel.seq": {"intValue": "334"},
                            "kernel.clock": {"intValue": "5140900"}})"),
            attributes(recordOf(json, 0, 4)));
}

TEST_F(OtlpRequestTest, HasTheWholeEvent) {
  capnp::MallocMessageBuilder message;
  auto event = message.initRoot<rpc::Event>();
  event.setTime(1'795'176'455'000'000'000);
  event.initSequence().setSequence("boot");
  event.getSequence().setError("no disk");
  auto json = add(encodeEvent(event), LogStream::EVENTS, "").finish();
  auto record = recordOf(json, 0, 0);
  EXPECT_EQ("1795176455000000000", record["timeUnixNano"]);
  EXPECT_EQ(17, record["severityNumber"]);
  auto whole = attributes(record)["event"]["stringValue"].get<std::string>();
  EXPECT_EQ("no disk", Json::parse(whole)["sequence"]["error"]) << whole;
}

// Catches: bytes that end a text early, or that JSON does not allow.
TEST_F(OtlpRequestTest, TakesAnyBytes) {
  auto json = add("a\"\\\n\x01\x7f\xff\xe2\x82\xac").add("").finish();
  EXPECT_EQ("a\"\\\n\x01\x7f\xef\xbf\xbd\xe2\x82\xac", recordOf(json, 0, 0)["body"]["stringValue"]);
  EXPECT_EQ("", recordOf(json, 0, 1)["body"]["stringValue"]);
}

// Checks that the tests' strict receiver finds errors.
TEST_F(OtlpRequestTest, StrictReceiverFindsErrors) {
  auto good = add("x").finish();
  auto count = [](const Json& request) { return OtlpSchema::problemsOf(request).size(); };
  EXPECT_EQ(0u, count(good));
  for (
      auto wrong :
      {R"([{"op": "add", "path": "/resource_logs", "value": []}])",
       R"([{"op": "remove", "path": "/resourceLogs"}])",
       R"([{"op": "replace", "path": "/resourceLogs/0/resource/attributes/0/key", "value": "a"}])",
       R"([{"op": "replace", "path": "/resourceLogs/0/scopeLogs/0/logRecords/0/timeUnixNano", "value": 17}])",
       R"([{"op": "replace", "path": "/resourceLogs/0/scopeLogs/0/logRecords/0/severityNumber", "value": 0}])",
       R"([{"op": "replace", "path": "/resourceLogs/0/scopeLogs/0/logRecords/0/body", "value": "x"}])"}) {
    EXPECT_GT(count(good.patch(Json::parse(wrong))), 0u) << wrong;
  }
}

}  // namespace
}  // namespace talos::logd
