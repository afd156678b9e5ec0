#include "logd/line-format.h"

#include <gtest/gtest.h>

#include <string>

#include "common/wire/event-line.h"

namespace talos::logd {
namespace {

using config::LogFormat;
using config::LogStream;

// 2026-11-20T12:07:35.042000001Z
const kj::Date kReceived = kj::UNIX_EPOCH + 1'795'176'455'042'000'001 * kj::NANOSECONDS;

std::string formatted(const LogLine& line, FormatOptions options = {}) {
  kj::Vector<char> out;
  formatLine(line, options, out);
  return std::string(out.begin(), out.size());
}
std::string json(kj::StringPtr text, LogStream stream = LogStream::SERVICES,
                 kj::StringPtr id = "apid") {
  return formatted({.stream = stream, .id = id, .text = text, .received = kReceived});
}
std::string syslog(kj::StringPtr text, LogStream stream = LogStream::SERVICES,
                   kj::StringPtr id = "apid") {
  return formatted({.stream = stream, .id = id, .text = text, .received = kReceived},
                   {.format = LogFormat::RFC5424, .hostname = "node-1"});
}

// Catches: a level or time that is not taken from the line; a byte that ends the object early.
TEST(LineFormat, JsonLinesOfServices) {
  struct Case {
    kj::StringPtr text, message, level, time;
  };
  constexpr auto kNow = "2026-11-20T12:07:35.042000001Z"_kj;
  const Case kCases[] = {
      {"plain", "plain", "info", kNow},
      {"", "", "info", kNow},
      {"time=2026-11-20T12:00:00.5Z level=error message=x",
       "time=2026-11-20T12:00:00.5Z level=error message=x", "error",
       "2026-11-20T12:00:00.500000000Z"},
      {"time=\"2026-11-20T12:00:00Z\" level=warning msg=\"a b\"",
       "time=\\\"2026-11-20T12:00:00Z\\\" level=warning msg=\\\"a b\\\"", "warn",
       "2026-11-20T12:00:00.000000000Z"},
      // A year outside of our dates; it once overflowed.
      {"time=0006-11-26T12:00:00Z a", "time=0006-11-26T12:00:00Z a", "info", kNow},
      {"time=2026-11-20T12:00:00.5x0Z a", "time=2026-11-20T12:00:00.5x0Z a", "info", kNow},
      {"time=yesterday level=debug", "time=yesterday level=debug", "debug", kNow},
      {"{\"level\":\"fatal\",\"msg\":1}", "{\\\"level\\\":\\\"fatal\\\",\\\"msg\\\":1}", "error",
       kNow},
      {"E1126 16:24:15.123456 1 x.go] no", "E1126 16:24:15.123456 1 x.go] no", "error", kNow},
      {"W1126 16:24:15.123456 1 x.go] no", "W1126 16:24:15.123456 1 x.go] no", "warn", kNow},
      {"Every1 day", "Every1 day", "info", kNow},
      {"sublevel=error", "sublevel=error", "info", kNow},
      {"level=", "level=", "info", kNow},
      {"tab\there \x1b[31m \x7f \\", "tab\\there \\u001b[31m \\u007f \\\\", "info", kNow},
      {"\xff\xc3(\xe2\x82\xac)", "\xef\xbf\xbd\xef\xbf\xbd(\xe2\x82\xac)", "info", kNow},
      {"\xc2\x85", "\\u0085", "info", kNow},
  };
  for (auto& c : kCases) {
    EXPECT_EQ(kj::str("{\"msg\":\"", c.message, "\",\"talos-level\":\"", c.level,
                      "\",\"talos-service\":\"apid\",\"talos-time\":\"", c.time, "\"}\n")
                  .cStr(),
              json(c.text))
        << c.text.cStr();
  }
}

TEST(LineFormat, JsonLinesOfKernelAndEvents) {
  EXPECT_EQ(
      "{\"msg\":\"NET: "
      "\\\"x\\\"\",\"clock\":5140900,\"facility\":\"kern\",\"priority\":\"warning\","
      "\"seq\":339,\"talos-level\":\"warn\",\"talos-time\":\"2026-11-20T12:07:35.042000001Z\"}\n",
      json("0,4,339,5140900,1795176455042000001;NET: \"x\"", LogStream::KERNEL, ""));
  EXPECT_EQ(
      "{\"msg\":\"odd\",\"talos-level\":\"info\",\"talos-service\":\"\",\"talos-time\":"
      "\"2026-11-20T12:07:35.042000001Z\"}\n",
      json("odd", LogStream::KERNEL, ""));
  capnp::MallocMessageBuilder message;
  auto event = message.initRoot<rpc::Event>();
  event.setTime(1'795'176'455'000'000'000);
  event.initSequence().setSequence("boot");
  event.getSequence().setError("no disk");
  auto text = json(encodeEvent(event), LogStream::EVENTS, "");
  EXPECT_TRUE(text.starts_with("{\"msg\":\"sequence boot: ")) << text;
  EXPECT_NE(std::string::npos, text.find(": no disk\",\"event\":{")) << text;
  EXPECT_NE(std::string::npos, text.find("\"talos-level\":\"error\",\"talos-service\":\"events\","
                                         "\"talos-time\":\"2026-11-20T12:07:35.000000000Z\"}\n"))
      << text;
  EXPECT_EQ(1, std::count(text.begin(), text.end(), '\n'));
}

// Catches: a field with a blank in it; structured data that a value ends; a length in characters
// instead of bytes.
TEST(LineFormat, Rfc5424) {
  EXPECT_EQ("<30>1 2026-11-20T12:07:35.042000Z node-1 apid - - - plain \xe2\x82\xac \\x1b",
            syslog("plain \xe2\x82\xac \x1b"));
  EXPECT_EQ("<27>1 2026-11-20T12:07:35.042000Z node-1 a_b_c - - - level=error",
            syslog("level=error", LogStream::SERVICES,
                   "a b\xff"
                   "c"));
  EXPECT_EQ("<110>1 2026-11-20T12:07:35.042000Z node-1 audit - audit - x",
            syslog("x", LogStream::AUDIT, "audit"));
  EXPECT_EQ(
      "<12>1 2026-11-20T12:07:35.042000Z node-1 kernel - kernel "
      "[kernel@32473 seq=\"339\" clock=\"5140900\"] text",
      syslog("1,4,339,5140900,1795176455042000001;text", LogStream::KERNEL, ""));
  LineTag tags[] = {{kj::str("rack"), kj::str("a]\"\\\xff")}};
  FormatOptions options{
      .format = LogFormat::RFC5424, .tags = tags, .hostname = "", .octetCounting = true};
  EXPECT_EQ(
      "81 <30>1 2026-11-20T12:07:35.042000Z - apid - - "
      "[tags@32473 rack=\"a\\]\\\"\\\\\\\\xff\"] \xe2\x82\xac",
      formatted({.id = "apid", .text = "\xe2\x82\xac"_kj, .received = kReceived}, options));
}

// Catches: a datagram above the limit, half a character, half an escape.
TEST(LineFormat, CutsATextToFit) {
  for (auto format : {LogFormat::JSON_LINES, LogFormat::RFC5424}) {
    FormatOptions options{.format = format, .hostname = "n", .newline = false};
    for (auto part : {"\xe2\x82\xac"_kj, "\x01"_kj, "\""_kj, "a"_kj, "\xff"_kj}) {
      auto text = kj::strArray(kj::repeat(part, 200), "");
      for (options.longest = 130; options.longest < 150; ++options.longest) {
        auto out = formatted({.id = "apid", .text = text, .received = kReceived}, options);
        EXPECT_LE(out.size(), options.longest);
        EXPECT_GT(out.size() + 10, options.longest);
        auto end = format == LogFormat::JSON_LINES ? out.find("...\"") : out.size() - 3;
        ASSERT_NE(std::string::npos, end);
        EXPECT_EQ("...", out.substr(end, 3));
      }
    }
    options.longest = SIZE_MAX;
    auto whole = formatted({.id = "apid", .text = "abc"_kj, .received = kReceived}, options);
    options.longest = whole.size();
    EXPECT_EQ(whole, formatted({.id = "apid", .text = "abc"_kj, .received = kReceived}, options));
  }
}

// Catches: a receiver of many nodes that cannot tell them apart; two fields of one name; a mark
// that makes a message invalid.
TEST(LineFormat, HostAndMarkOfRepeatedLines) {
  LogLine line{.id = "apid", .text = "t"_kj, .received = kReceived};
  auto out = formatted(line, {.hostname = "node-1", .repeated = true});
  EXPECT_TRUE(out.ends_with("Z\",\"host\":\"node-1\",\"talos-repeated\":true}\n")) << out;
  EXPECT_EQ(std::string::npos, formatted(line).find("host"));
  LineTag tags[] = {{kj::str("host"), kj::str("mine")}};
  out = formatted(line, {.tags = tags, .hostname = "node-1"});
  EXPECT_TRUE(out.ends_with("Z\",\"host\":\"mine\"}\n")) << out;
  FormatOptions options{.format = LogFormat::RFC5424, .hostname = "node-1", .repeated = true};
  EXPECT_EQ("<30>1 2026-11-20T12:07:35.042000Z node-1 apid - - [repeated@32473] t",
            formatted(line, options));
  options.tags = tags;
  EXPECT_EQ(
      "<30>1 2026-11-20T12:07:35.042000Z node-1 apid - - [repeated@32473][tags@32473 "
      "host=\"mine\"] t",
      formatted(line, options));
}

TEST(LineFormat, AddsTags) {
  LineTag tags[] = {{kj::str("rack"), kj::str("r\"17")}, {kj::str("site"), kj::str("x")}};
  auto out = formatted({.id = "apid", .text = "t"_kj, .received = kReceived}, {.tags = tags});
  EXPECT_TRUE(out.ends_with("Z\",\"rack\":\"r\\\"17\",\"site\":\"x\"}\n")) << out;
}

}  // namespace
}  // namespace talos::logd
