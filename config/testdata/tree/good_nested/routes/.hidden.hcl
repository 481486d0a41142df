nor is this {{{
