// The command lines of the users' documents, as users-lines.txt has them: each with what becomes of
// it, and how it is run on a cluster.
#pragma once

#include <string>
#include <vector>

namespace talos {

struct UsersLine {
  std::string origin;                // the document, and the line in it
  std::string verdict, why;          // "works"; "differs", "refused": why; "named"
  std::string run;                   // "first", "here", "end", "fails", "not", "-"
  std::string reason;                // of "not"
  std::vector<std::string> printed;  // pieces of what it prints
  std::string text;
};

// Throws when a line of the file has not the four columns.
std::vector<UsersLine> readUsersLines(const std::string& path);

// As a shell splits it: quotes, no backslashes.
std::vector<std::string> shellWords(const std::string& line);

// The same without what stands before the client's arguments: sudo, and its name, which the
// documents misspell at times. Empty when it is no line of the client.
std::vector<std::string> clientWords(const std::string& line);

}  // namespace talos
