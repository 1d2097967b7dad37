"""x"""

import streamlit as st


def page():
    st.write("steer")
