// Calls the Rust of kernels.rs.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
uint64_t distinct(uint64_t), mixed(uint32_t), words(const char *, size_t);
double mean(size_t);
// Nothing throws.
void rust_eh_personality(void) {}
int main(void) {
    const char *text = "  the quick  br\xc3\xb6wn fox jumps over the lazy d\xc3\xb6g ";
    printf("%lu %lu %lu %.9g\n", (unsigned long)distinct(7), (unsigned long)mixed(3),
           (unsigned long)words(text, strlen(text)), mean(5));
    return 0;
}
