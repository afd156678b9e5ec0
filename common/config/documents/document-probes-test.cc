// Documents of probes: TCPProbeConfig and HTTPProbeConfig.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/config/documents/test-documents.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

// Returns the probes of the view, one a line.
std::string shown(std::initializer_list<const char*> documents) {
  auto text = mainDocument();
  for (auto document : documents) text += oneDocument(document);
  EXPECT_EQ("", problemsIn(text));
  auto config = parsed(text);
  std::string all;
  for (auto probe : config.get().getMachine().getNetwork().getProbes()) {
    all += kj::str(probe.getHttp() ? "GET " : "", probe.getTarget(), " ", probe.getIntervalMs(),
                   " ", probe.getTimeoutMs(), " ", probe.getFailures(), "\n")
               .cStr();
  }
  return all;
}

// Catches: a key that is lost, or read into another one; another default.
TEST(ProbeDocuments, SetWhatTheyGive) {
  EXPECT_EQ("", shown({}));
  EXPECT_EQ("192.0.2.1:22 1000 10000 0\n",
            shown({"kind: TCPProbeConfig, name: gw, endpoint: '192.0.2.1:22'"}));
  EXPECT_EQ("GET http://192.0.2.1/ 1000 10000 0\n",
            shown({"kind: HTTPProbeConfig, name: web, url: 'http://192.0.2.1/'"}));
  EXPECT_EQ(
      "a.example.org:1 100 1 7\nGET https://[2001:db8::1]:444/x?y 3600000 90500 1\n",
      shown({"kind: TCPProbeConfig, name: a, endpoint: 'a.example.org:1', interval: 100ms, "
             "timeout: 1ms, failureThreshold: 7",
             "kind: HTTPProbeConfig, name: a, url: 'https://[2001:db8::1]:444/x?y', interval: 1h, "
             "timeout: 1m30.5s, failureThreshold: 1"}));
  EXPECT_EQ("192.0.2.1:22 1000 10000 0\n",
            shown({"kind: TCPProbeConfig, name: a, endpoint: '192.0.2.1:22', interval: 0s, "
                   "timeout: 0s"}))
      << "zero is the default";
  EXPECT_EQ("192.0.2.1:22 2000 10000 0\n",
            shown({"kind: TCPProbeConfig, name: a, endpoint: '192.0.2.1:22', interval: 2s",
                   "kind: TCPProbeConfig, name: b, endpoint: '192.0.2.1:22', interval: 2000ms"}))
      << "two documents for one target are one probe";
}

// Catches: a probe that asks nothing, or a thousand times a second; a password that each reader of
// the node sees, or that the message shows; of two settings of one probe one that does nothing.
TEST(ProbeDocuments, WhatTheNodeCannotDoIsAnError) {
  const std::pair<const char*, const char*> rows[] = {
      {"kind: TCPProbeConfig, endpoint: '192.0.2.1:22'",
       "TCPProbeConfig.name: required key is missing"},
      {"kind: TCPProbeConfig, name: a", "TCPProbeConfig[a].endpoint: required key is missing"},
      {"kind: TCPProbeConfig, name: a, endpoint: 192.0.2.1",
       "TCPProbeConfig[a].endpoint: \"192.0.2.1\" is not a host and a port; for example"},
      {"kind: TCPProbeConfig, name: a, url: 'http://a/'", "TCPProbeConfig[a].url: unknown key"},
      {"kind: HTTPProbeConfig, name: a, url: a",
       "HTTPProbeConfig[a].url: not a URL of http or https with a host and without a user; for"},
      {"kind: HTTPProbeConfig, name: a, url: 'ftp://a/'", "HTTPProbeConfig[a].url: not a URL of"},
      {"kind: HTTPProbeConfig, name: a, url: 'http://u:secret@a/'",
       "HTTPProbeConfig[a].url: not a URL of http or https with a host and without a user; for"},
      {"kind: TCPProbeConfig, name: a, endpoint: 'a:1', interval: 99ms",
       "TCPProbeConfig[a].interval: \"99ms\" is too short; use 100ms or more"},
      {"kind: TCPProbeConfig, name: a, endpoint: 'a:1', interval: -1s",
       "TCPProbeConfig[a].interval: \"-1s\" is not a duration; use 100ms or more"},
      {"kind: TCPProbeConfig, name: a, endpoint: 'a:1', timeout: '1'",
       "TCPProbeConfig[a].timeout: \"1\" is not a duration; use 1ms or more"},
      {"kind: TCPProbeConfig, name: a, endpoint: 'a:1', timeout: 999us",
       "TCPProbeConfig[a].timeout: \"999us\" is too short"},
      {"kind: TCPProbeConfig, name: a, endpoint: 'a:1', failureThreshold: -1",
       "TCPProbeConfig[a].failureThreshold: "},
  };
  for (auto& [document, problem] : rows) {
    auto found = problemsIn(mainDocument() + oneDocument(document));
    EXPECT_THAT(found, HasSubstr(problem)) << document;
    EXPECT_EQ(found.find("secret"), std::string::npos) << found;
  }
  auto longest = [](size_t size) {
    return mainDocument() + oneDocument("kind: HTTPProbeConfig, name: a, url: 'http://a/" +
                                        std::string(size - 9, 'b') + "'");
  };
  EXPECT_EQ("", problemsIn(longest(500)));
  EXPECT_THAT(problemsIn(longest(501)), HasSubstr("HTTPProbeConfig[a].url: longer than 500 bytes"));
  // Catches: a mistake that is reported only when the first one was corrected.
  auto all = problemsIn(
      mainDocument() +
      oneDocument("kind: HTTPProbeConfig, name: a, url: a, interval: 1ms, timeout: soon"));
  for (auto problem : {"[a].url: ", "[a].interval: ", "[a].timeout: "}) {
    EXPECT_THAT(all, HasSubstr(problem));
  }
  auto twice = mainDocument() +
               oneDocument("kind: TCPProbeConfig, name: a, endpoint: 'h:1', interval: 1s") +
               oneDocument("kind: TCPProbeConfig, name: b, endpoint: 'h:1', interval: 2s");
  EXPECT_THAT(problemsIn(twice), HasSubstr("TCPProbeConfig[b]: TCPProbeConfig[a] has the same "
                                           "target and other settings; remove one of the two"));
}

// Catches: more probes than probed has memory for.
TEST(ProbeDocuments, AreNotMoreThan128) {
  auto text = mainDocument();
  for (unsigned i = 1; i <= 128; ++i) {
    text +=
        oneDocument(kj::str("kind: TCPProbeConfig, name: p", i, ", endpoint: 'h:", i, "'").cStr());
  }
  EXPECT_EQ("", problemsIn(text));
  EXPECT_THAT(problemsIn(text + oneDocument("kind: HTTPProbeConfig, name: p, url: 'http://h/'")),
              HasSubstr("HTTPProbeConfig[p]: there are more than 128 probes; remove some"));
}

}  // namespace
}  // namespace talos::config
